"""A language model and a lexicon as torch tensors on a device: they answer many queries at once, without a wait.

Both are automata with arcs sorted by (state, label). A binary search over keys state << 32 | label finds an arc.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ds2.decoder.scoring import OUTSIDE, SearchTables
from ds2.lm.automaton import Automaton, unpacked
from ds2.lm.orders import WORD_BITS
from ds2.lm.packed import Packed


class NGramTable(NamedTuple):
    """The arrays of an NGram with A arcs and S states."""

    order: int
    keys: Tensor  # (A,) sorted
    log_probs: Tensor  # (A,)
    next: Tensor  # (A,) states
    backoffs: Tensor  # (S,)
    shorter: Tensor  # (S,) states

    def advance(self, state: Tensor, word: Tensor) -> tuple[Tensor, Tensor]:
        """(B, ...) states, (B, ...) words -> (B, ...) log-probabilities, (B, ...) next states.

        It takes one round more than the longest context has words: the root knows every word.
        """
        weight = torch.zeros_like(state, dtype=torch.float64)
        arc = torch.full_like(state, -1)
        for _ in range(self.order):
            place, found = find(self.keys, state, word)
            searching = arc < 0
            arc = torch.where(searching & found, place, arc)
            searching = arc < 0
            weight = torch.where(searching, weight + self.backoffs[state], weight)
            state = torch.where(searching, self.shorter[state], state)
        return weight + self.log_probs[arc], self.next[arc]


class LexiconTable(NamedTuple):
    """The arrays of a Lexicon with A arcs and N nodes, and the decoder's data for its words."""

    keys: Tensor  # (A,) sorted
    children: Tensor  # (A,) nodes
    words: Tensor  # (N,) the word that ends at each node, -1 if none does
    ahead: Tensor  # (N,) gain of the best word at or below each node
    boosts: Tensor  # (words,)
    numbers: Tensor  # (words,) numbers of the words in the language model
    columns: Tensor  # (words,) of the phrases' tables; these are
    next: Tensor  # (S, K) states
    gains: Tensor  # (S, K)
    held: Tensor  # (S,)
    leaves: Tensor  # (N,) whether no word goes on after a node

    def step(self, node: Tensor, symbol: Tensor) -> Tensor:
        """(B, ...) nodes, (B, ...) symbols -> (B, ...) the nodes after them, OUTSIDE where there is none."""
        place, found = find(self.keys, node, symbol)
        return torch.where(found, self.children[place], OUTSIDE)

    def is_leaf(self, node: Tensor) -> Tensor:
        """(B, ...) nodes -> (B, ...) whether they end a word that no longer one continues."""
        return (node > 0) & self.leaves[node.clamp(min=0)]

    def hoped(self, node: Tensor) -> Tensor:
        """(B, ...) nodes -> (B, ...) the gain that the beginning of a word got in advance."""
        return torch.where(node == OUTSIDE, 0.0, self.ahead[node.clamp(min=0)])


def ngram_table(model: Automaton | Packed, order: int, device: torch.device) -> NGramTable:
    """The tables of an n-gram model of an order, on the device."""
    lm = unpacked(model)
    return NGramTable(
        order,
        _keys(lm.first, lm.words).to(device),
        lm.unit * _tensor(lm.log_probs, device).double(),
        _tensor(lm.next, device).long(),
        lm.unit * _tensor(lm.backoffs, device).double(),
        _tensor(lm.shorter, device).long(),
    )


def lexicon_table(tables: SearchTables, device: torch.device) -> LexiconTable:
    """The tables of the vocabulary's trie with its bonuses, on the device."""
    trie = tables.lexicon
    return LexiconTable(
        _keys(trie.first, trie.tokens).to(device),
        _tensor(trie.children, device).long(),
        _tensor(trie.words, device).long(),
        _tensor(tables.ahead, device),
        _tensor(tables.boosts, device),
        _tensor(tables.numbers, device).long(),
        _tensor(tables.phrases.columns, device).long(),
        _tensor(tables.phrases.next, device).long(),
        _tensor(tables.phrases.gains, device),
        _tensor(tables.phrases.held, device),
        _tensor(np.diff(trie.first) == 0, device),
    )


def find(keys: Tensor, state: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """(A,) keys, (B, ...) states, labels -> (B, ...) the place of each arc among the keys, and whether it exists."""
    wanted = state << WORD_BITS | label
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return place, keys[place] == wanted


def _keys(first: np.ndarray, labels: np.ndarray) -> Tensor:
    states = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return torch.from_numpy(states << WORD_BITS | labels.astype(np.int64))


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array)).to(device)  # a copy: mapped files cannot be written
