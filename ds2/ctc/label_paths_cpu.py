"""The paths that give certain labels, on the CPU, an utterance at a time: label_paths.py says what the states are.

Weights are scaled to the sum 1 at every frame. A state whose labels to come need more frames than are left has the
weight 0: so the states from which the end is reached stay far above the smallest float.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
MOST = 1e300  # of a weight of the paths to the end; a state's that has more is 0 at the beginning


class Emissions(NamedTuple):
    """What an utterance of T frames emits along L labels, as probabilities.

    Attributes:
        labels: (T, L) of each label, at its place.
        silent: (T,) of the blank.
        again: (L,) whether a label equals the one before, which needs a blank between.
    """

    labels: NDArray[np.float64]
    silent: NDArray[np.float64]
    again: NDArray[np.bool_]


class PlaceStates(NamedTuple):
    """The weights of the states: `labels` whose frame emits that label, `blanks` after so many labels.

    Attributes:
        labels: (T + 1, L), before the first frame and after each.
        blanks: (T + 1, L + 1).
        scales: (T,) the sum of all weights after each frame, before they were scaled.
    """

    labels: NDArray[np.float64]
    blanks: NDArray[np.float64]
    scales: NDArray[np.float64]


@kernel
def states_of_labels(emitted, states):  # type: ignore[no-untyped-def]
    """Fills the states; returns the scaled weight of the paths that reach the end, 0 if none does."""
    frames, count = emitted.labels.shape
    labels, blanks = states.labels, states.blanks
    labels[0], blanks[0] = 0.0, 0.0
    blanks[0, 0] = 1.0
    for t in range(frames):
        total, needed = 0.0, count - (frames - 1 - t)  # labels that must be out after this frame
        for i in range(count + 1):
            stayed = blanks[t, i] + (labels[t, i - 1] if i else 0.0)
            blanks[t + 1, i] = stayed * emitted.silent[t] if i >= needed else 0.0
            total += blanks[t + 1, i]
        for i in range(count):
            stayed = labels[t, i] + blanks[t, i] + (labels[t, i - 1] if i and not emitted.again[i] else 0.0)
            labels[t + 1, i] = stayed * emitted.labels[t, i] if i + 1 >= needed else 0.0
            total += labels[t + 1, i]
        states.scales[t] = total
        scale = 1.0 / total if total > 0.0 else 0.0
        for i in range(count + 1):
            blanks[t + 1, i] *= scale
        for i in range(count):
            labels[t + 1, i] *= scale
    return blanks[frames, count] + (labels[frames, count - 1] if count else 0.0)


@kernel
def posteriors_of_labels(emitted, states, ended, scratch, of_labels, of_blank):  # type: ignore[no-untyped-def]
    """Fills (T, L) and (T,) with the probabilities that a path emits each label, or the blank, at each frame.

    Args:
        ended: what `states_of_labels` has returned, not 0.
        scratch: (2, L + 1) float64.
    """
    frames, count = emitted.labels.shape
    label, blank = scratch[0], scratch[1]
    label[:], blank[:] = 0.0, 0.0
    label[count - 1] = blank[count] = 1.0 / ended  # without labels label[-1] is read by nobody
    for t in range(frames - 1, -1, -1):
        silence, scale = 0.0, 1.0 / states.scales[t]
        for i in range(count):
            of_labels[t, i] = states.labels[t + 1, i] * label[i]
            label[i] = min(label[i] * (emitted.labels[t, i] * scale), MOST)
        for i in range(count + 1):
            silence += states.blanks[t + 1, i] * blank[i]
            blank[i] = min(blank[i] * (emitted.silent[t] * scale), MOST)
        of_blank[t] = silence
        # What leaves each state by this frame; the states behind it still have the weights after it.
        for i in range(count):
            entering = label[i]
            following = label[i + 1] if i + 1 < count and not emitted.again[i + 1] else 0.0
            blank[i] += entering
            label[i] = entering + blank[i + 1] + following
