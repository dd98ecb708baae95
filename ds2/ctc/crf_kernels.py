"""All paths of CTC-CRF on the CPU, an utterance at a time: ds2/ctc/crf.py says what the states are.

columns (T + 1, 2, V, V): the weights of the states after each frame, in [0] those whose frame emits their last label
b, in [1] those whose frame is a blank

             c                    a state (a, b) is the last two labels; with one label more it is (b, c)
  (a, b) -------> (b, c)          b once more needs a blank between: (a, b) by a blank -> (b, b)

Probabilities of a frame's outputs are (1, V), or (V, V), [a, b], where that of a label b depends on the label a before.
"""

from typing import NamedTuple

import numpy as np

from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
inlined = njit(error_model="numpy", fastmath=REORDER, _nrt=False, forceinline=True)
LABEL, BLANK = 0, 1
# Of the sum of all states: smaller ones are 0, since processors are slow near the smallest float.
TINY = np.float32(1e-30)


class TrigramTables(NamedTuple):
    """Probabilities of the trigram, (V, V, V) and (V, V)."""

    other: np.ndarray  # [b, a, c]: p(c | a, b) of another label than b
    back: np.ndarray  # [b, c, a]: the same
    after_blank: np.ndarray  # [a, b]: p(b | a, b), which needs a blank before it
    end: np.ndarray  # [a, b]: that the labels end


@inlined
def add_product(vector, matrix, result):  # type: ignore[no-untyped-def]
    """(R,) not negative, (R, C) -> adds the (C,) product to the result, four rows at once."""
    rows, columns, r, one = np.uint64(len(vector)), np.uint64(len(result)), np.uint64(0), np.uint64(1)
    four = one + one + one + one
    while r + four <= rows:
        second, third, fourth = r + one, r + one + one, r + one + one + one
        v, w, x, y = vector[r], vector[second], vector[third], vector[fourth]
        if v + w + x + y > np.float32(0.0):  # most are 0 where few labels may follow another
            for c in range(columns):
                result[c] += v * matrix[r, c] + w * matrix[second, c] + x * matrix[third, c] + y * matrix[fourth, c]
        r += four
    while r < rows:
        for c in range(columns):
            result[c] += vector[r] * matrix[r, c]
        r += one


@inlined
def _row(now, label):  # type: ignore[no-untyped-def]
    """The row of a frame's outputs after a label."""
    return min(label, np.uint64(len(now) - 1))


@kernel
def forward(probabilities, count, tables, columns, scales, scratch):  # type: ignore[no-untyped-def]
    """Fills `columns` and the (T,) `scales` of the first `count` frames; returns the weight of the paths that may end.

    Args:
        probabilities: (T, 1 or V, V) of the outputs.
        scratch: (4, V, V).
    """
    outputs, either = np.uint64(len(tables.end)), scratch[0]  # a signed index is tested for its sign
    columns[0] = 0.0
    columns[0, BLANK, 0, 0] = 1.0
    for t in range(count):
        before, after, now = columns[t], columns[t + 1], probabilities[t]
        # All states by their last label, which is what the product over the labels before it needs together.
        for a in range(outputs):
            for b in range(outputs):
                either[b, a] = before[LABEL, a, b] + before[BLANK, a, b]
                after[BLANK, a, b] = (before[LABEL, a, b] + before[BLANK, a, b]) * now[0, 0]
        for b in range(outputs):
            # Labels that stay, labels that enter, and those that enter after a blank.
            again = np.float32(0.0)
            for a in range(outputs):
                again += before[BLANK, a, b] * tables.after_blank[a, b]
                after[LABEL, b, a] = before[LABEL, b, a]
            add_product(either[b], tables.other[b], after[LABEL, b])
            after[LABEL, b, b] += again
        scales[t] = _scaled(after, now)
    ended = np.float32(0.0)
    for a in range(outputs):
        for b in range(outputs):
            ended += (columns[count, LABEL, a, b] + columns[count, BLANK, a, b]) * tables.end[a, b]
    return ended


@inlined
def _scaled(after, now):  # type: ignore[no-untyped-def]
    """Multiplies the label states by the frame's probabilities, and scales all to the sum 1; returns the sum before."""
    outputs, total = np.uint64(now.shape[1]), np.float32(0.0)
    for b in range(outputs):
        row = _row(now, b)
        for c in range(outputs):
            after[LABEL, b, c] *= now[row, c]
            total += after[LABEL, b, c] + after[BLANK, b, c]
    scale = np.float32(1.0) / total
    for kind in range(2):
        for a in range(outputs):
            for b in range(outputs):
                value = after[kind, a, b] * scale
                after[kind, a, b] = value if value > TINY else np.float32(0.0)
    return total


@kernel
def backward(probabilities, count, tables, columns, scales, scratch, ended, posteriors):  # type: ignore[no-untyped-def]
    """Fills `posteriors`, zeros before: the probability of each output at each frame, as `probabilities` has them.
    `scratch`: (4, V, V)."""
    outputs = np.uint64(len(tables.end))
    label, blank, entered, emitted = scratch[0], scratch[1], scratch[2], scratch[3]
    for a in range(outputs):
        for b in range(outputs):
            label[a, b] = blank[a, b] = tables.end[a, b] / ended
    for t in range(count - 1, -1, -1):
        after, now = columns[t + 1], probabilities[t]
        # The posteriors of this frame: forward times backward weights.
        silent = np.float32(0.0)
        for a in range(outputs):
            row = _row(now, a)
            for b in range(outputs):
                posteriors[t, row, b] += after[LABEL, a, b] * label[a, b]
                silent += after[BLANK, a, b] * blank[a, b]
        posteriors[t, 0, 0] = silent
        # Backward weights before this frame: what leaves each state by the frame's outputs.
        scale = np.float32(1.0) / scales[t]
        for b in range(outputs):
            row = _row(now, b)
            for c in range(outputs):
                emitted[b, c] = label[b, c] * (now[row, c] * scale)
                entered[b, c] = 0.0
        for b in range(outputs):
            add_product(emitted[b], tables.back[b], entered[b])
        for a in range(outputs):
            for b in range(outputs):
                silent = blank[a, b] * (now[0, 0] * scale) + entered[b, a]
                label[a, b] = emitted[a, b] + silent
                blank[a, b] = silent + emitted[b, b] * tables.after_blank[a, b]
