"""The arrays that a frame of the beam search needs besides the beam: made once, filled anew in each frame."""

from typing import NamedTuple

import numpy as np

from ds2.decoder.prefixes import ARC, NONE, STAY

CANDIDATE = np.dtype([  # an entry with one more label
    ("entry", np.int64),
    ("label", np.int64),
    ("lm", np.int64),
    ("lexicon", np.int64),
    ("chance", np.float64),
    ("gains", np.float64),
])  # fmt: skip


class Scratch(NamedTuple):
    """The arrays that a frame needs besides the beam: V outputs, N entries, M candidates."""

    chosen: np.ndarray  # (V,) labels to try
    heap: np.ndarray  # (V,) labels that may be tried
    chances: np.ndarray  # (V,) their probabilities; 0 of all others, and between frames
    active: np.ndarray  # (V,) entry of the child of the present entry by each symbol; NONE between entries
    stays: np.ndarray  # (N,) of STAY
    candidates: np.ndarray  # (M,) of CANDIDATE
    scores: np.ndarray  # (N + M,) probabilities
    kept: np.ndarray  # (N + M,) numbers of those that are kept
    spare: np.ndarray  # (N + M,)
    losers: np.ndarray  # (N + M,) the next of those that lost to the same one, as a chain from it; NONE ends it
    arcs: np.ndarray  # (A,) of ARC
    table: np.ndarray  # (2 ** k, 2) with 2 ** k > N + M: frame + 1, and a number; empty where nothing is recombined


def make_scratch(outputs: int, entries: int, candidates: int, settings: np.void) -> Scratch:
    """Room for a frame with so many outputs, entries and candidates."""
    numbers = entries + candidates
    slots = 1 << numbers.bit_length() if settings["recombine"] else 0
    return Scratch(
        np.empty(outputs, np.int64), np.empty(outputs, np.int64), np.zeros(outputs), np.full(outputs, NONE, np.int64),
        np.empty(entries, STAY), np.empty(candidates, CANDIDATE),
        np.empty(numbers), np.empty(numbers, np.int64), np.empty(numbers),
        np.empty(numbers, np.int64), np.empty(settings["arcs"], ARC),
        np.zeros((slots, 2), np.int64),
    )  # fmt: skip
