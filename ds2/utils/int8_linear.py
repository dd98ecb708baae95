"""A dense layer with weights in int8, for a few rows on a CPU.

A step of a large model is bound by the reading of its weights: int8 has a quarter of float32's bytes, with a scale for
each output. Activations are rounded to int16, with a scale for each row, in so many levels that no sum overflows:

    levels (M, K) int8 * x (N, K) int16 = int32 sums;   y[n, m] = sum * scale[m] * scale[n] + bias[m]
"""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ds2.utils.devices import cpu_threads
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit, plain, taught_by

LARGEST = 127
MOST_LEVELS = 2**15 - 1
OUTPUTS, ROWS = 2, 4  # of a tile: the rows of x share a reading of a weight, the outputs one of x
BLOCK = 32  # rows of weights and activations have a multiple of so many columns, zeros at the end
LEAST_PRODUCTS = 1 << 23  # fewer are done before threads have begun

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
taught_by("ds2.utils.int8_dot")


class Int8Weight(NamedTuple):
    """(M, K) levels in int8, zeros up to a multiple of BLOCK, and (M,) float32 scales; their product is a weight."""

    levels: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray) -> "Int8Weight":
        """Rounds an (M, K) weight; each row's largest becomes 127."""
        largest = np.abs(weight).max(1)
        scale = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
        return cls.padded(np.rint(weight / scale[:, None]).astype(np.int8), scale)

    @classmethod
    def padded(cls, levels: np.ndarray, scale: np.ndarray) -> "Int8Weight":
        """From (M, K) levels and (M,) scales."""
        return cls(np.pad(levels, ((0, 0), (0, -levels.shape[1] % BLOCK))), scale)


class Activations(NamedTuple):
    """Rows of x as an `Int8Weight` takes them: (N, K) levels in int16, (N,) float32 scales."""

    levels: np.ndarray
    scale: np.ndarray

    @classmethod
    def empty(cls, rows: int, weight: Int8Weight) -> "Activations":
        """Activations of so many rows for a weight, to be filled."""
        return cls(np.empty((rows, weight.levels.shape[1]), np.int16), np.empty(rows, np.float32))


def most_levels(columns: int) -> int:
    """The largest level of activations for which the sum of so many products is an int32."""
    return min(MOST_LEVELS, (2**31 - 1) // (LARGEST * columns))


@kernel
def round_rows(x, most, rounded):  # type: ignore[no-untyped-def]
    """(N, K) float32 -> the first N rows of Activations; each row's largest becomes `most`."""
    levels, scale = rounded
    for n in range(len(x)):
        row, own, largest = x[n], levels[n], np.float32(0)
        for k in range(len(row)):
            largest = max(largest, abs(row[k]))
        scale[n] = largest / np.float32(most) if largest > 0 else np.float32(1)
        share = np.float32(1) / scale[n]
        for k in range(len(row)):
            own[k] = np.int16(row[k] * share + (np.float32(0.5) if row[k] >= 0 else np.float32(-0.5)))
        for k in range(len(row), len(own)):
            own[k] = 0


def one_dot(weights, m, x, i):  # type: ignore[no-untyped-def]
    """(M, K) int8, m, (N, K) int16, i -> the dot product of weights[m] and x[i], of int32."""
    return x[i].astype(np.int32) @ weights[m].astype(np.int32)


def tile_of_dots(weights, m, x, i):  # type: ignore[no-untyped-def]
    """The same of weights[m : m + OUTPUTS], one after the other, and x[i : i + ROWS], in a tuple."""
    outputs, rows = weights[m : m + OUTPUTS].astype(np.int32), x[i : i + ROWS].astype(np.int32)
    return tuple((outputs @ rows.T).ravel())


@kernel
def products(x, weight, bias, y, first, last):  # type: ignore[no-untyped-def]
    """y[:, first:last] of y (N, M) = x (N, K) Activations * an Int8Weight (M, K)^T + bias."""
    (levels, scale), (rounded, scales) = weight, x
    rows, outputs = len(y) // ROWS * ROWS, first + (last - first) // OUTPUTS * OUTPUTS
    for m in range(first, outputs, OUTPUTS):
        for i in range(0, rows, ROWS):
            sums = tile_of_dots(levels, m, rounded, i)
            for output in range(OUTPUTS):
                for row in range(ROWS):
                    own = scale[m + output] * scales[i + row]
                    y[i + row, m + output] = np.float32(sums[output * ROWS + row]) * own + bias[m + output]
    for m in range(first, last):
        for i in range(rows if m < outputs else 0, len(y)):
            y[i, m] = np.float32(one_dot(levels, m, rounded, i)) * (scale[m] * scales[i]) + bias[m]


def in_threads(work: Callable[[int, int], object], count: int) -> None:
    """Divides the numbers from 0 to `count` - 1 among `cpu_threads()` threads: work(first, beyond the last)."""
    threads = min(cpu_threads(), count)
    if threads < 2:
        work(0, count)
        return
    bounds = [count * part // threads for part in range(threads + 1)]
    list(_threads(threads).map(work, bounds[:-1], bounds[1:]))


@functools.cache
def _threads(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def int8_linear(x: np.ndarray, weight: Int8Weight, bias: np.ndarray | None = None) -> np.ndarray:
    """x W^T + bias: (N, K) float32, (M, K), (M,) -> (N, M) float32, in `cpu_threads()` threads if it is large."""
    added = _nothing(len(weight.scale)) if bias is None else bias
    y = np.empty((len(x), len(added)), np.float32)
    rounded, weights = plain(Activations.empty(len(x), weight)), plain(weight)
    round_rows(np.ascontiguousarray(x), most_levels(x.shape[1]), rounded)
    if len(x) * weight.levels.size < LEAST_PRODUCTS:
        products(rounded, weights, added, y, 0, len(added))
    else:
        in_threads(lambda first, last: products(rounded, weights, added, y, first, last), len(added))
    return y


@functools.cache
def _nothing(outputs: int) -> np.ndarray:
    """(outputs,) zeros."""
    return np.zeros(outputs, np.float32)
