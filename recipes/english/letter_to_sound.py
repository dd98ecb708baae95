"""Pronunciations of words that are not in a dictionary, learned from those that are.

Every letter stands for no phone, one or two. Expectation maximisation on the dictionary finds which:

    k  n  i  g  h  t  s          a letter then gets the phones that it most often had between the same letters, with
    -  N  AY -  -  T  S          as wide a context as the dictionary has, up to four letters on each side

Only one letter and its context are used, as in the decision trees of Black, Lenzo and Pagel 1998, "Issues in
building general letter to sound rules".
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ds2.data.cmudict import TOKENS, Pronunciation
from ds2.utils.jit import compiled

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
PHONES = len(TOKENS)
CHUNKS = 1 + PHONES + PHONES * PHONES  # no phone, one, two
ROUNDS = 5  # iterations of expectation maximisation
WINDOWS = ((4, 4), (3, 3), (2, 3), (3, 2), (1, 3), (2, 2), (1, 2), (0, 2), (2, 1), (1, 1), (0, 1), (1, 0), (0, 0))
PADDING = "#" * 4


class LetterToSound:
    """Learns from pronunciations; `pronounce` then gives the phones of any word in the letters of the alphabet."""

    def __init__(self, pronunciations: Mapping[str, Sequence[Pronunciation]]):
        """Learns from the first pronunciation of each word that is written in letters alone."""
        pairs = [(word, spoken[0]) for word, spoken in pronunciations.items() if set(word) <= set(LETTERS)]
        counts: dict[str, Counter[int]] = {}
        for (word, _), chunks in zip(pairs, _align(pairs), strict=True):
            for place, chunk in enumerate(chunks):
                for context in contexts(word, place):
                    counts.setdefault(context, Counter())[chunk] += 1
        self.chunks = {context: seen.most_common(1)[0][0] for context, seen in counts.items()}

    def pronounce(self, word: str) -> Pronunciation:
        """The phones of a word; characters outside the alphabet are silent."""
        word = "".join(letter for letter in word if letter in LETTERS)
        phones: list[int] = []
        for place in range(len(word)):
            known = (self.chunks[context] for context in contexts(word, place) if context in self.chunks)
            phones += _phones_of(next(known, 0))
        return tuple(phones)


def contexts(word: str, place: int) -> list[str]:
    """A letter between its neighbours, the widest window first; a mark for the letter makes windows differ."""
    padded, at = PADDING + word + PADDING, place + len(PADDING)
    return [f"{padded[at - before : at]}.{padded[at : at + after + 1]}" for before, after in WINDOWS]


def _phones_of(chunk: int) -> list[int]:
    if chunk <= PHONES:
        return [chunk - 1] if chunk else []
    return list(divmod(chunk - 1 - PHONES, PHONES))


def _align(pairs: Sequence[tuple[str, Pronunciation]]) -> list[list[int]]:
    """The chunk of phones of each letter of each word; an empty list for words that cannot be divided this way."""
    words = [np.array([LETTERS.index(letter) for letter in word]) for word, _ in pairs]
    phones = [np.array(spoken) for _, spoken in pairs]
    chances = np.full((len(LETTERS), CHUNKS), 1.0 / CHUNKS)
    chances[:, 1 + PHONES :] /= PHONES
    for _ in range(ROUNDS):
        counts = np.full_like(chances, 1e-6)
        for letters, spoken in zip(words, phones, strict=True):
            _expect(letters, spoken, chances, counts)
        chances = counts / counts.sum(1, keepdims=True)
    return [_best(letters, spoken, np.log(chances)).tolist() for letters, spoken in zip(words, phones, strict=True)]


@compiled
def _chunk(spoken, end, size):  # type: ignore[no-untyped-def]
    """The number of the chunk of `size` phones that ends before `end`."""
    if size == 0:
        return 0
    if size == 1:
        return 1 + spoken[end - 1]
    return 1 + PHONES + spoken[end - 2] * PHONES + spoken[end - 1]


@compiled
def _expect(letters, spoken, chances, counts):  # type: ignore[no-untyped-def]
    """Adds the expected number of each (letter, chunk) over all ways to divide the phones among the letters."""
    n, m = len(letters), len(spoken)
    forward, backward = np.zeros((n + 1, m + 1)), np.zeros((n + 1, m + 1))
    forward[0, 0] = backward[n, m] = 1.0
    for i in range(1, n + 1):
        for j in range(m + 1):
            for size in range(min(2, j) + 1):
                forward[i, j] += forward[i - 1, j - size] * chances[letters[i - 1], _chunk(spoken, j, size)]
    for i in range(n - 1, -1, -1):
        for j in range(m + 1):
            for size in range(min(2, m - j) + 1):
                backward[i, j] += backward[i + 1, j + size] * chances[letters[i], _chunk(spoken, j + size, size)]
    total = forward[n, m]
    if total <= 0.0:
        return
    for i in range(n):
        for j in range(m + 1):
            for size in range(min(2, m - j) + 1):
                chunk = _chunk(spoken, j + size, size)
                way = forward[i, j] * chances[letters[i], chunk] * backward[i + 1, j + size]
                counts[letters[i], chunk] += way / total


@compiled
def _best(letters, spoken, scores):  # type: ignore[no-untyped-def]
    """(n,) chunks of the best division, (0,) if there is none."""
    n, m = len(letters), len(spoken)
    best, sizes = np.full((n + 1, m + 1), -math.inf), np.zeros((n + 1, m + 1), np.int64)
    best[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(m + 1):
            for size in range(min(2, j) + 1):
                score = best[i - 1, j - size] + scores[letters[i - 1], _chunk(spoken, j, size)]
                if score > best[i, j]:
                    best[i, j], sizes[i, j] = score, size
    if best[n, m] == -math.inf:
        return np.zeros(0, np.int64)
    chunks, j = np.zeros(n, np.int64), m
    for i in range(n, 0, -1):
        chunks[i - 1] = _chunk(spoken, j, sizes[i, j])
        j -= sizes[i, j]
    return chunks
