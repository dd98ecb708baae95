"""A language model and a lexicon as torch tensors on a device: many questions at once, none waits for the host.

Both are automata whose arcs are sorted by (state, label): an arc is found by a search over keys state << 32 | label.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ds2.decoder.ngram import WORD_BITS

OUTSIDE = -1  # in place of a lexicon's node: the word is not in the lexicon


class NGramTable(NamedTuple):
    """The arrays of an NGram: A arcs, S states."""

    order: int
    keys: Tensor  # (A,) sorted
    log_probs: Tensor  # (A,)
    next: Tensor  # (A,) states
    backoffs: Tensor  # (S,)
    shorter: Tensor  # (S,) states

    def advance(self, state: Tensor, word: Tensor) -> tuple[Tensor, Tensor]:
        """(log-probability, next state) of each word in each state, of one shape.

        As many rounds as the longest context has words, and one: the root knows every word.
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
    """The arrays of a Lexicon: A arcs, N nodes; and what the decoder knows of its words."""

    keys: Tensor  # (A,) sorted
    children: Tensor  # (A,) nodes
    words: Tensor  # (N,) the word that ends at each node, -1 if none does
    ahead: Tensor  # (N,) what the best single word at or below each node gains
    boosts: Tensor  # (words,)
    numbers: Tensor  # (words,) the language model's

    def step(self, node: Tensor, symbol: Tensor) -> Tensor:
        """The node behind each symbol, OUTSIDE where there is none."""
        place, found = find(self.keys, node, symbol)
        return torch.where(found, self.children[place], OUTSIDE)

    def hoped(self, node: Tensor) -> Tensor:
        """What a beginning of a word was given in advance."""
        return torch.where(node == OUTSIDE, 0.0, self.ahead[node.clamp(min=0)])


def ngram_table(automaton: tuple[Any, ...], order: int, device: torch.device) -> NGramTable:
    *arrays, unit = automaton
    first, words, log_probs, follow, backoffs, shorter = (torch.from_numpy(np.array(array)) for array in arrays)
    table = (_keys(first, words), unit * log_probs.double(), follow.long(), unit * backoffs.double(), shorter.long())
    return NGramTable(order, *(tensor.to(device) for tensor in table))


def lexicon_table(
    arrays: tuple[np.ndarray, ...], boosts: np.ndarray, numbers: np.ndarray, device: torch.device
) -> LexiconTable:
    first, tokens, children, words, ahead = (torch.from_numpy(np.array(array)) for array in arrays)
    rest = (torch.from_numpy(np.array(boosts)), torch.from_numpy(np.array(numbers)).long())
    table = (_keys(first, tokens), children.long(), words.long(), ahead, *rest)
    return LexiconTable(*(tensor.to(device) for tensor in table))


def find(keys: Tensor, state: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """(place of each arc among the keys, whether it is there)."""
    wanted = state << WORD_BITS | label
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return place, keys[place] == wanted


def _keys(first: Tensor, labels: Tensor) -> Tensor:
    states = torch.arange(len(first) - 1).repeat_interleave(first.long().diff())
    return states << WORD_BITS | labels.long()
