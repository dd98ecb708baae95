"""Which states of CTC's trellis lie on a complete path: the others are not computed."""

from typing import NamedTuple

import numpy as np

from ds2.utils.jit import njit


class Band(NamedTuple):
    """The states that are computed at each of T frames."""

    low: np.ndarray  # (T,) the first
    high: np.ndarray  # (T,) one past the last


@njit(nogil=True)
def required(labels):  # type: ignore[no-untyped-def]
    """Fewest frames that hold the labels: one each, and a blank between equal neighbours."""
    frames = len(labels)
    for i in range(1, len(labels)):
        frames += labels[i] == labels[i - 1]
    return frames


@njit(nogil=True)
def find_band(labels, frames, band):  # type: ignore[no-untyped-def]
    """The states i (blank i or label i) of each frame that lie on a complete path; False if there is no such path.

    Label i is reached after i + repeats(0..i) frames; the labels after it and their repeats need that many frames
    before the end.

    Args:
        band: of T frames or more, to be filled in.
    """
    count, left = len(labels), required(labels)
    if left > frames:
        return False
    low, high, reached = 0, 0, 0
    for t in range(frames):
        # The band's end moves up as soon as a path from the start can be there: blank `high` is reached at `reached`.
        while high <= count and reached <= t:
            reached += 1 + (0 < high < count and labels[high] == labels[high - 1])
            high += 1
        # Its beginning moves up where no path would reach the end: from label `low` on `left` frames are needed.
        while low < count and left > frames - t:
            low += 1
            left -= 1 + (low < count and labels[low] == labels[low - 1])
        band.low[t], band.high[t] = low, high
    return True
