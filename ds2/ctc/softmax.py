"""The softmax of the CTC kernels on the CPU."""

import math

from ds2.ctc.workspace import SOFTMAX_VALUES
from ds2.utils.fast_exp import REORDER, exponential
from ds2.utils.jit import njit

FEW = 32  # values: too few for a vector loop


@njit(nogil=True, error_model="numpy")
def softmax(utterance, normalizers, buffer):  # type: ignore[no-untyped-def]
    """Writes log sum exp of each frame into the normalizers, weight * softmax into the gradient, if one is wanted.

    One pass over the scores; `buffer` is memory for SOFTMAX_VALUES of them, or V if that is more.
    """
    logits, gradient, weight = utterance.logits, utterance.gradient, utterance.weight
    first, stride, outputs, frames = utterance.first, utterance.stride, utterance.outputs, utterance.frames
    at_once = max(1, SOFTMAX_VALUES // outputs)
    for start in range(0, frames, at_once):
        size = min(at_once, frames - start)
        # Some frames at a time, as many as the cache holds: less their largest score, then all exponentials, then sums.
        for k in range(size):
            row = logits[first + (start + k) * stride : first + (start + k) * stride + outputs]
            normalizers[start + k] = _subtract_largest(row, buffer[k * outputs : (k + 1) * outputs])
        exponentials(buffer[: size * outputs])
        for k in range(size):
            row = buffer[k * outputs : (k + 1) * outputs]
            total = _sum(row)
            normalizers[start + k] += math.log(total)
            if len(gradient):
                begin = first + (start + k) * stride
                _scale_into(row, buffer.dtype.type(weight / total), gradient[begin : begin + outputs])


@njit(nogil=True)
def _subtract_largest(row, into):  # type: ignore[no-untyped-def]
    """Writes row - max(row) into `into`; returns the maximum."""
    # Halves are compared as vectors, until few values are left; a plain loop for the maximum would go value by value.
    size = len(row) // 2
    for v in range(size):
        into[v] = max(row[v], row[size + v])
    while size >= FEW:
        into[0], size = max(into[0], into[size - 1]), size // 2
        for v in range(size):
            into[v] = max(into[v], into[size + v])
    largest = row[len(row) - 1]
    for v in range(size):
        largest = max(largest, into[v])
    for v in range(len(row)):
        into[v] = row[v] - largest
    return largest


@njit(nogil=True)
def exponentials(values):  # type: ignore[no-untyped-def]
    """Replaces each of the (V,) values by its exponential, in place."""
    for v in range(len(values)):
        values[v] = exponential(values[v])


@njit(nogil=True, fastmath=REORDER)
def _sum(row):  # type: ignore[no-untyped-def]
    total = row.dtype.type(0.0)
    for v in range(len(row)):
        total += row[v]
    return total


@njit(nogil=True)
def _scale_into(row, factor, into):  # type: ignore[no-untyped-def]
    for v in range(len(row)):
        into[v] = row[v] * factor
