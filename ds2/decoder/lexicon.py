"""Words as token strings, in a trie of flat arrays that says which token may follow and where a word may end.

root --t--> o --h--> o --e--> (the)        children of a node lie side by side, sorted by token
     \\--a--> (a)
"""

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ds2.decoder.hot_phrases import NO_PHRASES, phrase_tables, split_hot
from ds2.utils.jit import without_references

NO_WORD = -1
TOKEN_BITS = 32  # the key of an arc is node << TOKEN_BITS | token
TOKEN_MASK = (1 << TOKEN_BITS) - 1


class Trie(NamedTuple):
    """N nodes, of which the root is the first; children follow their parents."""

    first: np.ndarray  # (N + 1,) where the arcs of each node begin
    tokens: np.ndarray  # (N - 1,) token of each arc
    children: np.ndarray  # (N - 1,) node of each arc
    words: np.ndarray  # (N,) the word that ends at each node; NO_WORD if none does


NO_LEXICON = Trie(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.full(1, -1, np.int32))


class Lexicon:
    """Words for a decoder, numbered in the order in which they are given."""

    def __init__(self, words: Iterable[Sequence[int]], space: int):
        """`words` are sequences of token indices; `space` is the token between words."""
        spellings = list(words)
        lengths = np.fromiter(map(len, spellings), np.int64, len(spellings))
        tokens = np.fromiter(itertools.chain.from_iterable(spellings), np.int64, int(lengths.sum()))
        self._set(tokens, lengths, space)

    @classmethod
    def from_arrays(cls, tokens: np.ndarray, lengths: np.ndarray, space: int) -> "Lexicon":
        """`tokens` of all words, one after the other; (words,) `lengths` of them."""
        lexicon = cls.__new__(cls)
        lexicon._set(tokens.astype(np.int64), lengths.astype(np.int64), space)
        return lexicon

    def _set(self, tokens: np.ndarray, lengths: np.ndarray, space: int) -> None:
        self.space = space
        self.boosts = np.zeros(len(lengths))  # nats that a word adds to the score when it is found
        self.trie = _trie(tokens, lengths)
        self.phrases, self.phrase_tables = dict[str, float](), NO_PHRASES

    def with_hot(self, hot: Mapping[str, float], numbers: Mapping[str, Sequence[int]]) -> "Lexicon":
        """The same words, some with other nats, and more phrases to prefer.

        Args:
            hot: nats of each word, and of each word of a phrase.
            numbers: those of each word here; words without any are not found.
        """
        boosts, phrases = split_hot(hot)
        other = copy.copy(self)
        other.boosts = self.boosts.copy()
        for word, nats in boosts.items():
            other.boosts[list(numbers.get(word, ()))] = nats
        other.phrases = self.phrases | phrases
        other.phrase_tables = phrase_tables(other.phrases, numbers, len(self.boosts))
        return other

    def without_hot(self) -> "Lexicon":
        """The same words, none of which is preferred or avoided."""
        other = copy.copy(self)
        other.boosts, other.phrases, other.phrase_tables = np.zeros_like(self.boosts), {}, NO_PHRASES
        return other

    @property
    def prefers(self) -> bool:
        """Whether some words or phrases are preferred, and none avoided."""
        nats = self._nats()
        return bool((nats >= 0).all() and (nats > 0).any())

    @property
    def has_hot(self) -> bool:
        """Whether some words or phrases are preferred or avoided."""
        return bool(self._nats().any())

    def _nats(self) -> np.ndarray:
        return np.append(self.boosts, list(self.phrases.values()))

    def boosts_of(self, tokens: Sequence[int], known: dict[tuple[int, ...], int]) -> float:
        """The nats that hot words and phrases add to a whole text of (L,) tokens.

        Args:
            known: numbers of words by their tokens; those that it lacks are added.
        """
        total, state, tables = 0.0, 0, self.phrase_tables
        for is_space, group in itertools.groupby(tokens, self.space.__eq__):
            if is_space:
                continue
            word = tuple(group)
            if word not in known:
                known[word] = self.number(word)
            number = known[word]
            total += self.boosts[number] if number != NO_WORD else 0.0
            if self.phrases:
                column = tables.columns[number] if number != NO_WORD else 0
                total, state = total + tables.gains[state, column], tables.next[state, column]
        return float(total - tables.held[state])

    def number(self, tokens: Sequence[int]) -> int:
        """The number of a word; NO_WORD if it is not in the lexicon."""
        node = self.node(tokens)
        return NO_WORD if node is None else int(self.trie.words[node])

    def node(self, tokens: Sequence[int]) -> int | None:
        """The node of the beginning of a word; None if no word begins so."""
        node, trie = 0, self.trie
        for token in tokens:
            first, end = trie.first[node : node + 2]
            arc = first + np.searchsorted(trie.tokens[first:end], token)
            if arc == end or trie.tokens[arc] != token:
                return None
            node = trie.children[arc]
        return int(node)


def look_ahead(trie: Trie, gains: np.ndarray) -> np.ndarray:
    """(N,) the largest of the (words,) gains at or below each node; 0 at the root."""
    ahead = np.where(trie.words != NO_WORD, gains[trie.words] if len(gains) else -np.inf, -np.inf)
    _hand_up(trie, ahead)
    ahead[0] = 0.0
    return ahead


@without_references
def _hand_up(trie, ahead):  # type: ignore[no-untyped-def]
    for node in range(len(ahead) - 1, -1, -1):  # children follow their parents
        for arc in range(trie.first[node], trie.first[node + 1]):
            ahead[node] = max(ahead[node], ahead[trie.children[arc]])


def _trie(tokens: np.ndarray, lengths: np.ndarray) -> Trie:
    """The trie of all words. Each round adds one token of every word, so nodes are in order of depth."""
    starts, lengths = np.cumsum(lengths) - lengths, lengths.copy()
    node = np.zeros(len(lengths), np.int64)  # the node that each word has reached
    spelt, nodes, arcs = np.flatnonzero(lengths), 1, [np.zeros(0, np.int64)]
    while spelt.size:
        # Words that reached the same node and go on with the same token share a new node. Words that are in order
        # already, as those of a phone search nearly are, cost no sorting.
        keys = node[spelt] << TOKEN_BITS | tokens[starts[spelt]]
        order = np.argsort(keys, kind="stable")
        keys, spelt = keys[order], spelt[order]
        new = np.append(True, keys[1:] != keys[:-1])
        arcs.append(keys[new])
        node[spelt] = nodes - 1 + np.cumsum(new)
        nodes += len(arcs[-1])
        starts[spelt] += 1
        lengths[spelt] -= 1
        spelt = spelt[lengths[spelt] > 0]
    # The arcs lie in the order of their nodes, and arc k leads to node k + 1.
    keys = np.concatenate(arcs)
    word = np.full(nodes, NO_WORD, np.int32)
    word[node] = np.arange(len(lengths))
    word[0] = NO_WORD  # an empty word does not count
    first = np.searchsorted(keys >> TOKEN_BITS, np.arange(nodes + 1))
    return Trie(first, (keys & TOKEN_MASK).astype(np.int32), np.arange(1, nodes, dtype=np.int32), word)


def check_word_numbers(numbers: np.ndarray, words: int, lexicon: Lexicon | None) -> None:
    """Checks (W,) numbers that the words of a lexicon, or (V,) that the tokens, have among a model's `words`.

    Raises:
        ValueError: not one for each, or one that the language model does not have.
    """
    least, count = (-1, len(numbers)) if lexicon is None else (0, len(lexicon.boosts))
    if numbers.shape != (count,) or (count and not least <= numbers.min() <= numbers.max() < words):
        raise ValueError(f"lm_words: expected a number from {least} to {words - 1} for each word or token")
