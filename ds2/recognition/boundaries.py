"""Word boundaries: CTC's peaks lie inside the words, slightly late and much shorter than they are."""

import itertools

import numpy as np

from ds2.data.loudness import HOP

LATE = 0.06  # seconds by which the peaks of a CTC model follow the sound: measured on synthesised voices
REACH = 0.5  # seconds beyond its peaks that the first word may begin, and the last one end
AROUND = 5  # levels on each side of a gap that give the loudness of the words
QUIET_FRACTION = 0.08  # of the range of levels (dB) around a gap: below it lies the gap


def word_boundaries(level: np.ndarray, peaks: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Moves each word back by the delay of its peaks and widens it to the edges of its sound.

        peaks     |the|           |cat||sat|
        level   _/-----\\__________/----v----\\__      words meet at the quietest point between
        words   |  the |         |cat | sat |         them, or leave the quiet span out

    Args:
        level: what `levels` returns.
        peaks: start and end in seconds of each word's tokens, in order.

    Returns:
        start and end in seconds; words that did not overlap do not overlap now.
    """
    if not peaks:
        return []
    peaks = [(max(0.0, start - LATE), max(0.0, end - LATE)) for start, end in peaks]
    last = len(level) * HOP
    gaps = [(max(0.0, peaks[0][0] - REACH), peaks[0][0])]
    gaps += [(before[1], after[0]) for before, after in itertools.pairwise(peaks)]
    gaps += [(peaks[-1][1], min(last, peaks[-1][1] + REACH))]
    edges = [_edges(level, *gap) for gap in gaps]
    return [(before[1], after[0]) for before, after in itertools.pairwise(edges)]


def _edges(level: np.ndarray, start: float, end: float) -> tuple[float, float]:
    """The end of the sound before a gap between two peaks (seconds), and the start of the sound after it."""
    first, last = round(start / HOP), max(round(start / HOP) + 1, round(end / HOP))
    inside = level[first:last]
    if len(inside) < 2:
        return start, end
    lowest, highest = inside.min(), level[max(0, first - AROUND) : last + AROUND].max()
    quiet = np.flatnonzero(inside <= lowest + QUIET_FRACTION * (highest - lowest))
    return float(first + quiet[0]) * HOP, float(first + quiet[-1] + 1) * HOP
