"""The automaton of an n-gram model, in flat arrays that the decoder's kernels walk.

A state is a context, a node of a trie of words. Its arcs are the words that follow the context in the model, sorted:

    root --the--> [the] --cat--> [the cat] --sat--> next: [cat sat], the longest context that is known
                    |                |
                 shorter          shorter            a word without an arc here: add the state's back-off weight and
                    v                v               look again from the shorter context; the root knows every word
                  root             [cat]

Log-probabilities are natural logarithms; `packed.py` has the same automaton with rounded ones in a third of the space.
"""

from typing import Any, NamedTuple

import numpy as np

from ds2.lm import packed
from ds2.lm.packed import ROOT, STEP, Packed
from ds2.utils.jit import compiled, inlined, taught_by, without_references

taught_by("ds2.lm.compiled_advance")


class Automaton(NamedTuple):
    """The arrays that `advance` walks: S states, A arcs sorted by (state, word); the root has an arc for each word."""

    first: np.ndarray  # (S + 1,) place where the arcs of each state begin
    words: np.ndarray  # (A,)
    log_probs: np.ndarray  # (A,)
    next: np.ndarray  # (A,) states
    backoffs: np.ndarray  # (S,)
    shorter: np.ndarray  # (S,) states
    unit: float  # nats in one unit of log_probs and backoffs: STEP in former models of 16 bits, otherwise 1


def frozen(automaton: Automaton | Packed) -> Any:
    """The same arrays, none of which can be written, as those of a mapped file: numba compiles for each kind anew."""
    return type(automaton)(*map(_read_only, automaton))


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view(np.ndarray)
    view.flags.writeable = False
    return view


# What a search without a language model has in its place.
EMPTY: Automaton = frozen(
    Automaton(
        np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32),
        np.zeros(1, np.float32), np.zeros(1, np.int32), 1.0,
    )
)  # fmt: skip


@inlined
def find_arc(labels, low, end, label):  # type: ignore[no-untyped-def]
    """The place of `label` in the sorted labels[low:end]; -1 if it is not there."""
    high = end
    while low < high:
        middle = (low + high) // 2
        if labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low if low < end and labels[low] == label else -1


@without_references
def advance_flat(automaton, state, word):  # type: ignore[no-untyped-def]
    """`advance` in an Automaton."""
    # Each shorter context costs a back-off weight; the root ends the way, because it knows every word.
    weight = 0.0
    while state != ROOT:
        arc = find_arc(automaton.words, automaton.first[state], automaton.first[state + 1], word)
        if arc >= 0:
            return automaton.unit * (weight + automaton.log_probs[arc]), automaton.next[arc]
        weight += automaton.backoffs[state]
        state = automaton.shorter[state]
    return automaton.unit * (weight + automaton.log_probs[word]), automaton.next[word]


def advance(automaton, state, word):  # type: ignore[no-untyped-def]
    """(log-probability, next state) of word number `word`; every word has an arc from the root, at its number."""
    return (packed.advance_packed if isinstance(automaton, Packed) else advance_flat)(automaton, state, word)


def unpacked(lm: Automaton | Packed) -> Automaton:
    """The same automaton in arrays without bits, for what reads all of it."""
    if isinstance(lm, Automaton):
        return lm
    first, words, shorter = packed.flat_arrays(lm)
    # Where an arc leads is not stored: the packed form finds it while it walks.
    following = np.empty(len(words), np.int32)
    _follow_all(lm, first, words, following)
    log_probs = np.concatenate((np.float32(STEP) * lm.singles, lm.levels[lm.log_probs]))
    return Automaton(first, words, log_probs, following, lm.backoff_levels[lm.backoffs], shorter, 1.0)


@compiled
def _follow_all(automaton, first, words, following):  # type: ignore[no-untyped-def]
    """Fills (A,) the state after each arc."""
    for state in range(len(first) - 1):
        for arc in range(first[state], first[state + 1]):
            following[arc] = advance(automaton, state, words[arc])[1]
