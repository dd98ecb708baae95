"""Pieces of words, from which every word can be made: merges of neighbours, learnt from a text's words.

    conversation  ->  _con vers ation

Byte-pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units").
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ds2.utils.errors import InputError

START = "_"  # before the first letter of a word
UNRANKED = 1 << 31


class Pieces:
    """Words in, numbers of their pieces out; 0 is left for the begin and end of sentences."""

    def __init__(self, pieces: Sequence[str]):
        """`pieces`: in the order in which they were merged, the single letters first.

        Raises:
            InputError: a piece is empty, or stands there twice.
        """
        self.pieces = list(pieces)
        self.numbers = {piece: number for number, piece in enumerate(self.pieces, 1)}
        if len(self.numbers) != len(self.pieces) or "" in self.numbers:
            raise InputError("the pieces of words are damaged: one is empty or there twice")
        self._divided: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.pieces) + 1

    def divide(self, word: str) -> list[int] | None:
        """The numbers of a word's pieces, merged as far as possible, earliest pieces first; None if it has a letter
        that no piece has."""
        if word not in self._divided:
            self._divided[word] = self._merged(word)
        return self._divided[word] or None

    def _merged(self, word: str) -> list[int]:
        parts = letters_of(word)
        while len(parts) > 1:
            rank, place = min((self.numbers.get(parts[k] + parts[k + 1], UNRANKED), k) for k in range(len(parts) - 1))
            if rank == UNRANKED:
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        numbers = [self.numbers.get(part, 0) for part in parts]
        return numbers if all(numbers) else []


def letters_of(word: str) -> list[str]:
    """A word's letters, the first one marked."""
    return [START + word[:1], *word[1:]]


def learn_pieces(counts: Mapping[str, int], size: int) -> list[str]:
    """At most `size` pieces: all letters, then the most frequent pairs of neighbours, one merge after another.

    Args:
        counts: how often each word stands in the text.
    """
    words = [letters_of(word) for word in counts]
    pieces = sorted({letter for word in words for letter in word})
    merges = _Merges(words, list(counts.values()))
    known = set(pieces)
    while len(pieces) < size and (pair := merges.most_frequent()) is not None:
        piece = merges.merge(pair)
        if piece not in known:
            known.add(piece)
            pieces.append(piece)
    return pieces


class _Merges:
    """The words as pieces so far, the count of each pair of neighbours, and the words that have it."""

    def __init__(self, words: list[list[str]], counts: list[int]):
        self.words, self.counts = words, counts
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.places: dict[tuple[str, str], set[int]] = defaultdict(set)
        for number in range(len(words)):
            self._count(number, 1)
        self.heap = [(-count, pair) for pair, count in self.pairs.items()]
        heapq.heapify(self.heap)

    def most_frequent(self) -> tuple[str, str] | None:
        """The most frequent pair; the first of the alphabet among equal ones; None if no word has two pieces."""
        while self.heap:
            count, pair = heapq.heappop(self.heap)
            if count == -self.pairs[pair]:
                return pair
            if self.pairs[pair]:  # it has changed since
                heapq.heappush(self.heap, (-self.pairs[pair], pair))
        return None

    def merge(self, pair: tuple[str, str]) -> str:
        """Makes one piece of a pair in all words."""
        piece, changed = "".join(pair), set()
        for number in self.places.pop(pair):
            changed.update(self._count(number, -1))
            self.words[number] = joined(self.words[number], pair)
            changed.update(self._count(number, 1))
        for each in changed:
            if self.pairs[each]:
                heapq.heappush(self.heap, (-self.pairs[each], each))
        return piece

    def _count(self, number: int, sign: int) -> list[tuple[str, str]]:
        word = self.words[number]
        pairs = list(itertools.pairwise(word))
        for pair in pairs:
            self.pairs[pair] += sign * self.counts[number]
            if sign > 0:
                self.places[pair].add(number)
        return pairs


def joined(parts: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """The parts, with each occurrence of the pair as one, from left to right."""
    found: list[str] = []
    waiting = False  # whether the last part may still take its neighbour
    for part in parts:
        if waiting and (found[-1], part) == pair:
            found[-1] += part
            waiting = False
        else:
            found.append(part)
            waiting = True
    return found
