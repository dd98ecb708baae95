"""Words as token strings, in a trie of flat arrays: which token may follow inside a word, and where a word may end.

root --t--> o --h--> o --e--> (the)        children of a node lie side by side, sorted by token
     \\--a--> (a)
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

NO_WORD = -1


class Trie(NamedTuple):
    """N nodes, of which the root is the first; children come after their parents."""

    first: np.ndarray  # (N + 1,) where the arcs of each node begin
    tokens: np.ndarray  # (N - 1,) of each arc
    children: np.ndarray  # (N - 1,) node of each arc
    words: np.ndarray  # (N,) the word that ends at each node; NO_WORD if none does


class Lexicon:
    """Words for a decoder, numbered in the order in which they are given."""

    def __init__(self, words: Iterable[Sequence[int]], space: int, boosts: Sequence[float] | None = None):
        """`words` as token indices; `space` is the token between them.

        `boosts` are nats added to the score of each word when it is spoken: positive for hot words.
        """
        spellings = [tuple(word) for word in words]
        self.words = set(spellings)
        self.space = space
        self.boosts = np.zeros(len(spellings)) if boosts is None else np.asarray(boosts, np.float64)
        if len(self.boosts) != len(spellings):
            raise ValueError(f"boosts must be one for each of {len(spellings)} words, got {len(self.boosts)}")
        self.trie = Trie(*_trie(spellings))


def _trie(spellings: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """first (N + 1,) child of each node, token and child (N - 1,) of each arc, word (N,) that ends at a node."""
    order = sorted(range(len(spellings)), key=lambda number: spellings[number])
    nodes: list[dict[int, int]] = [{}]
    word = [NO_WORD]
    for number in order:
        node = 0
        for token in spellings[number]:
            if token not in nodes[node]:
                nodes[node][token] = len(nodes)
                nodes.append({})
                word.append(NO_WORD)
            node = nodes[node][token]
        if node:  # an empty word is none
            word[node] = number
    counts = [len(children) for children in nodes]
    arcs = [arc for children in nodes for arc in sorted(children.items())]
    tokens, children = (np.array([arc[column] for arc in arcs], np.int32) for column in (0, 1))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), tokens, children, np.array(word, np.int32)
