"""The best path through the CTC trellis, in little memory: an hour takes some 50 MB.

    column   0 . . . . K . . . . 2K . . .       forward: scores only; every K-th column is kept
                 <-----  <------               backward, block by block: from a kept column the block's scores are
                                               computed again, with pointers; the path moves at most one label a frame,
                                               so of all labels only the K before its end matter

Blanks and labels lie in separate arrays, only the band of useful states is computed, and inner loops have unsigned
indices, as in `linear_space`.
"""

import math
from typing import NamedTuple

import numpy as np

from ds2.ctc.band import Band, find_band
from ds2.ctc.kernel_types import U1
from ds2.utils.jit import njit

LONGEST_BLOCK = 1024  # frames: its pointers take 2 MB
STAY, FROM_BLANK, FROM_LABEL = 0, 1, 2  # pointers; a blank is reached by STAY or FROM_LABEL
BLANKS, LABELS = 0, 1  # rows of a column: blank i lies at i, label i at i + 1


class Source(NamedTuple):
    """What the search reads."""

    log_probs: np.ndarray  # (T, V)
    labels: np.ndarray  # (L,)
    blank: int
    skips: np.ndarray  # (L + 1,) score of the step over the blank before each label: 0, or -inf between equal ones


@njit(nogil=True)
def best_path(log_probs, labels, blank):  # type: ignore[no-untyped-def]
    """(T, V) float32 log-probabilities without NaN, (L,) uint64 labels.

    Returns:
        (T,) int64, the index of the label that each frame belongs to, or -1 for a blank; and the path's
        log-probability, which is -inf where the labels do not fit into T frames, or some label has no probability.
    """
    frames, count = log_probs.shape[0], len(labels)
    path = np.full(frames, -1)
    band = Band(np.empty(frames, np.uint64), np.empty(frames, np.uint64))
    if not find_band(labels, frames, band):
        return path, -math.inf
    skips = np.full(count + 1, -math.inf)
    for i in range(1, count):
        if labels[i] != labels[i - 1]:
            skips[i] = 0.0
    source = Source(log_probs, labels, blank, skips)

    # Forward, with scores alone. The length of a block makes kept columns and a block's pointers equally large.
    block = max(1, min(LONGEST_BLOCK, math.ceil((4.0 * frames * (count + 1)) ** (1 / 3))))
    kept = np.empty((max(0, frames - 1) // block + 1, 2, count + 3))
    column, other = np.full((2, count + 3), -math.inf), np.full((2, count + 3), -math.inf)
    column[BLANKS, 0] = 0.0
    for t in range(frames):
        if t % block == 0:
            kept[t // block] = column
        _viterbi_step(source, np.uint64(t), column, other, band.low[t], band.high[t])
        column, other = other, column

    # The better of both ends, and from there backward, block by block.
    on_label = count > 0 and column[LABELS, count] > column[BLANKS, count]
    score = column[LABELS, count] if on_label else column[BLANKS, count]
    if score > -math.inf:
        _trace_back(source, kept, block, on_label, path)
    return path, score


@njit(nogil=True, fastmath={"nnan", "nsz"})
def _viterbi_step(source, t, old, new, low, high):  # type: ignore[no-untyped-def]
    """Column t from the one before. States that leave the band become -inf."""
    log_probs, labels, blank, skips = source
    blank_score, count = log_probs[t, blank], np.uint64(len(labels))
    for i in range(low, min(high, count)):
        stay, before = old[BLANKS, i], old[LABELS, i]
        new[BLANKS, i] = max(stay, before) + blank_score
        new[LABELS, i + U1] = max(max(old[LABELS, i + U1], stay), before + skips[i]) + log_probs[t, labels[i]]
    if high > count:
        new[BLANKS, count] = max(old[BLANKS, count], old[LABELS, count]) + blank_score
    new[LABELS, low], new[BLANKS, high], new[LABELS, high + U1] = -math.inf, -math.inf, -math.inf


@njit(nogil=True)
def _trace_back(source, kept, block, on_label, path):  # type: ignore[no-untyped-def]
    """Fills in the path, from its end at the last blank or, `on_label`, at the last label."""
    index = len(source.labels) - on_label
    pointers = np.empty((block, 2, block + 1), np.uint8)
    for number in range(len(kept) - 1, -1, -1):
        start, size = number * block, min(block, len(path) - number * block)
        # The path moves at most one label a frame: only so many labels before its end matter in this block.
        lowest = max(0, index - size)
        _point(source, start, size, kept[number], lowest, index, pointers)
        # From the block's last frame to its first each pointer says where the path came from.
        for k in range(size - 1, -1, -1):
            pointer = pointers[k, int(on_label), index - lowest]
            if on_label:
                path[start + k] = index
                on_label = pointer != FROM_BLANK
                index -= pointer == FROM_LABEL
            elif pointer == FROM_LABEL:
                on_label = True
                index -= 1


@njit(nogil=True)
def _point(source, start, size, column, lowest, highest, pointers):  # type: ignore[no-untyped-def]
    """Pointers of `size` frames from `start` on, for the states lowest..highest.

    Blank i lies at blanks[i - lowest], label i at emitting[i - lowest + 1].
    """
    log_probs, labels, blank, skips = source
    width = highest - lowest + 1
    blanks, emitting = column[BLANKS, lowest : highest + 1].copy(), column[LABELS, lowest : highest + 2].copy()
    # From outside the states no path reaches the end.
    emitting[0] = -math.inf
    for k in range(size):
        # Downwards, so that a column can replace the one before in its place.
        for i in range(width - 1, -1, -1):
            stay, before, label = blanks[i], emitting[i], lowest + i
            pointers[k, 0, i] = FROM_LABEL if before > stay else STAY
            blanks[i] = max(stay, before) + log_probs[start + k, blank]
            if label < len(labels):
                best, pointer = emitting[i + 1], STAY
                if stay > best:
                    best, pointer = stay, FROM_BLANK
                if before + skips[label] > best:
                    best, pointer = before + skips[label], FROM_LABEL
                pointers[k, 1, i] = pointer
                emitting[i + 1] = best + log_probs[start + k, labels[label]]
