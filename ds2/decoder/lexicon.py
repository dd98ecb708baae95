"""Words as token strings, in a trie of flat arrays: which token may follow inside a word, and where a word may end.

root --t--> o --h--> o --e--> (the)        children of a node lie side by side, sorted by token
     \\--a--> (a)
"""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

NO_WORD = -1
TOKEN_BITS = 32  # of an arc's key: node << TOKEN_BITS | token
TOKEN_MASK = (1 << TOKEN_BITS) - 1


class Lexicon:
    """Words for a decoder, numbered in the order in which they are given."""

    def __init__(self, words: Iterable[Sequence[int]], space: int, boosts: Sequence[float] | None = None):
        """`words` as token indices; `space` is the token between them.

        `boosts` are nats added to the score of each word when it is spoken: positive for hot words.
        """
        # Not a list of 100,000 lists, through which the garbage collector would go again and again.
        tokens, lengths = array("q"), array("q")
        for word in words:
            tokens.extend(word)
            lengths.append(len(word))
        self.space = space
        self.boosts = np.zeros(len(lengths)) if boosts is None else np.asarray(boosts, np.float64)
        if len(self.boosts) != len(lengths):
            raise ValueError(f"boosts must be one for each of {len(lengths)} words, got {len(self.boosts)}")
        self.arrays = _trie(np.array(tokens, np.int64), np.array(lengths, np.int64))


def _trie(tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """first (N + 1,) child of each node, token and child (N - 1,) of each arc, word (N,) that ends at a node.

    All words are spelt side by side, a token each round: nodes are numbered by depth, then parent, then token.

    Args:
        tokens: (T,) of all words, one word behind the other.
        lengths: (words,) tokens of each.
    """
    starts = np.cumsum(lengths) - lengths
    node = np.zeros_like(lengths)  # that each word has reached
    spelt, nodes, arcs = np.flatnonzero(lengths), 1, [np.zeros(0, np.int64)]
    while spelt.size:
        keys = node[spelt] << TOKEN_BITS | tokens[starts[spelt]]
        found, places = np.unique(keys, return_inverse=True)
        node[spelt] = nodes + places
        nodes += len(found)
        arcs.append(found)
        starts[spelt] += 1
        lengths[spelt] -= 1
        spelt = spelt[lengths[spelt] > 0]
    keys = np.concatenate(arcs)
    word = np.full(nodes, NO_WORD, np.int32)
    word[node] = np.arange(len(node))
    word[0] = NO_WORD  # an empty word is none
    first = np.searchsorted(keys >> TOKEN_BITS, np.arange(nodes + 1))
    return first, (keys & TOKEN_MASK).astype(np.int32), np.arange(1, nodes, dtype=np.int32), word
