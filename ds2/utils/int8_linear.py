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
from ds2.utils.jit import njit, taught_by

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
        return cls(np.zeros((rows, weight.levels.shape[1]), np.int16), np.ones(rows, np.float32))


def most_levels(columns: int) -> int:
    """The largest level of activations for which the sum of so many products is an int32."""
    return min(MOST_LEVELS, (2**31 - 1) // (LARGEST * columns))


@kernel
def round_rows(x, most, rounded):  # type: ignore[no-untyped-def]
    """(N, K) float32 -> the first N rows and K columns of Activations; each row's largest becomes `most`."""
    for n in range(len(x)):
        row, levels, largest = x[n], rounded.levels[n], np.float32(0)
        for k in range(len(row)):
            largest = max(largest, abs(row[k]))
        rounded.scale[n] = largest / np.float32(most) if largest > 0 else np.float32(1)
        share = np.float32(1) / rounded.scale[n]
        for k in range(len(row)):
            levels[k] = np.int16(row[k] * share + (np.float32(0.5) if row[k] >= 0 else np.float32(-0.5)))


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
    rows, outputs = len(y) // ROWS * ROWS, first + (last - first) // OUTPUTS * OUTPUTS
    for m in range(first, outputs, OUTPUTS):
        for i in range(0, rows, ROWS):
            sums = tile_of_dots(weight.levels, m, x.levels, i)
            for output in range(OUTPUTS):
                for row in range(ROWS):
                    own = weight.scale[m + output] * x.scale[i + row]
                    y[i + row, m + output] = np.float32(sums[output * ROWS + row]) * own + bias[m + output]
    for m in range(first, last):
        for i in range(rows if m < outputs else 0, len(y)):
            y[i, m] = np.float32(one_dot(weight.levels, m, x.levels, i)) * (weight.scale[m] * x.scale[i]) + bias[m]


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


def int8_linear(x: np.ndarray, weight: Int8Weight, bias: np.ndarray) -> np.ndarray:
    """x W^T + bias: (N, K) float32, (M, K), (M,) -> (N, M) float32, in `cpu_threads()` threads if it is large."""
    rounded, y = Activations.empty(len(x), weight), np.empty((len(x), len(weight.scale)), np.float32)
    round_rows(np.ascontiguousarray(x), most_levels(x.shape[1]), rounded)
    if len(x) * weight.levels.size < LEAST_PRODUCTS:
        products(rounded, weight, bias, y, 0, len(bias))
    else:
        in_threads(lambda first, last: products(rounded, weight, bias, y, first, last), len(bias))
    return y
