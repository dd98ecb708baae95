"""Products of bytes with a matrix of int8 weights, on processors that add four of them to a sum at once (VNNI).

    levels (N, K) uint8 * weight (M, K) int8 = int32 sums;   y[n, m] += sum * scale[n] * scale[m]

Where x may be below 0, its levels are 128 higher; the sums begin with what this adds, subtracted. Levels of 16 bits are
two planes of bytes, (N, 2 K): the sums of the first, times 256, go on with the second.
"""

import functools
import os
from typing import NamedTuple

import numpy as np

from ds2.utils.jit import njit, plain, taught_by
from ds2.utils.processor import processor_flags

LARGEST = 127
LANES = 16  # outputs that one instruction adds to
COLUMNS = 4  # bytes of a row that it multiplies for each of them
LEAST_WEIGHTS = 1 << 15  # of a matrix: below them float32 takes no time either
BLOCKS = 2  # of LANES outputs in a tile
MANY, FEW = 8, 4  # rows of a tile, all of whose sums stay in registers

kernel = njit(nogil=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract"}, _nrt=False)
taught_by("ds2.utils.byte_tiles")


@functools.cache
def multiplies_bytes() -> bool:
    """Whether this processor has the instruction, and kernels are compiled for this processor."""
    named = any(os.environ.get(name) for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"))
    return "avx512_vnni" in processor_flags() and not named


def worth_it(weight: np.ndarray) -> bool:
    """Whether products with a (M, K) weight are faster so."""
    return multiplies_bytes() and weight.shape[1] % COLUMNS == 0 and weight.size >= LEAST_WEIGHTS


class ByteWeight(NamedTuple):
    """A (M, K) weight: (M / 16, K / 4, 16, 4) int8 levels, (M,) int32 that sums begin with, (M,) float32 scales."""

    levels: np.ndarray
    start: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, signed: bool) -> "ByteWeight":
        """Rounds a (M, K) weight, K a multiple of 4; each row's largest becomes 127. `signed`: x may be below 0."""
        largest = np.abs(weight).max(1)
        scale = np.where(largest > 0, largest / LARGEST, 1).astype(np.float32)
        return cls.packed(np.rint(weight / scale[:, None]).astype(np.int8), scale, signed)

    @classmethod
    def packed(cls, levels: np.ndarray, scale: np.ndarray, signed: bool) -> "ByteWeight":
        """(M, K) int8 levels, K a multiple of 4, and (M,) scales; zeros follow up to whole tiles."""
        missing = -len(levels) % (LANES * BLOCKS)
        levels, scale = np.pad(levels, ((0, missing), (0, 0))), np.pad(scale, (0, missing))
        start = levels.sum(1, dtype=np.int32) * np.int32(-LARGEST - 1 if signed else 0)
        packed = levels.reshape(len(levels) // LANES, LANES, -1, COLUMNS).swapaxes(1, 2)
        return cls(np.ascontiguousarray(packed), start, scale)


def add_many(x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
    """y[j : j + MANY, outputs] += x[i : i + MANY] weight[outputs]^T, outputs of BLOCKS blocks.

    Args:
        x: (N, K) or (N, 2 K) uint8 levels, (N,) float32 scales.
        weight: the parts of a ByteWeight.
        y: (N', M) float32.
    """
    for row in range(MANY):
        add_one(x, i + row, weight, block, y, j + row)


def add_few(x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
    """The same of FEW rows, x (N, K) and y (N', M)."""
    for row in range(FEW):
        add_one(x, i + row, weight, block, y, j + row)


def add_one(x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
    """The same of one row, x (N, K) and y (N', M)."""
    (levels, scale), (weights, start, weight_scale) = x, weight
    outputs = slice(block * LANES, (block + BLOCKS) * LANES)
    rows = weights[block : block + BLOCKS].swapaxes(1, 2).reshape(BLOCKS * LANES, -1).astype(np.int32)
    sums = start[outputs]
    for number, plane in enumerate(levels[i].astype(np.int32).reshape(-1, rows.shape[1])):
        sums = sums * (256 if number else 1) + rows @ plane
    y[j, outputs] += sums * scale[i] * weight_scale[outputs]


@kernel
def round_to_bytes(x, most, above, levels, scale):  # type: ignore[no-untyped-def]
    """(N, K) float32 -> (N, K) or (N, 2 K) uint8, (N,) float32 scales; each row's largest becomes `most`, 0 `above`."""
    size, shift, bits = x.shape[1], np.float32(above + 0.5), x.view(np.int32)
    for n in range(len(x)):
        row, own, largest = x[n], levels[n], np.int32(0)
        for each in bits[n]:  # of floats without their sign: the larger one has the larger bits
            largest = max(largest, each & np.int32(0x7FFFFFFF))
        scale[n] = np.int32(largest).view(np.float32) / np.float32(most) if largest > 0 else np.float32(1)
        share = np.float32(1) / scale[n]
        if len(own) > size:  # a loop for each plane: both in one are no vector instructions
            low = own[size:]
            for k in range(size):
                own[k] = np.uint8(np.int32(row[k] * share + shift) >> 8)
            for k in range(size):
                low[k] = np.uint8(np.int32(row[k] * share + shift))
        else:
            for k in range(size):
                own[k] = np.uint8(np.int32(row[k] * share + shift))


@kernel
def add_products(x, first, weight, y):  # type: ignore[no-untyped-def]
    """y (N', M) += x[first : first + N'] weight^T, of levels (N, K) or (N, 2 K) with their scales, and a ByteWeight."""
    rows = len(y)
    for block in range(0, len(weight[0]), BLOCKS):
        n = 0
        while n + MANY <= rows:
            add_many(x, first + n, weight, block, y, n)
            n += MANY
        while n + FEW <= rows:
            add_few(x, first + n, weight, block, y, n)
            n += FEW
        while n < rows:
            add_one(x, first + n, weight, block, y, n)
            n += 1


def rounded(x: np.ndarray, signed: bool, fine: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(N, K) -> (N, K) uint8 levels, (N,) float32 scales; `fine`: (N, 2 K), as many bits as keep all sums in int32."""
    count, columns = x.shape
    levels, scale = np.empty((count, columns * (2 if fine else 1)), np.uint8), np.empty(count, np.float32)
    above = (2**15 if fine else LARGEST + 1) if signed else 0
    most = min(2**15 - 1, (2**31 - 1) // (LARGEST * columns)) if fine else 255 - above
    round_to_bytes(np.ascontiguousarray(x, np.float32), most, above, levels, scale)
    return levels, scale


def convolved(x: tuple[np.ndarray, np.ndarray], taps: list[ByteWeight], bias: np.ndarray) -> np.ndarray:
    """Levels and scales of N rows, weights of this row and those after it, (M,) -> (N, M) float32.

    The last rows, for which there are not enough, lack what is not there.
    """
    y = np.empty((len(x[1]), len(taps[0].scale)), np.float32)
    y[:, : len(bias)], y[:, len(bias) :] = bias, 0
    for number, weight in enumerate(taps):
        add_products(x, number, plain(weight), y[: max(0, len(y) - number)])
    return y[:, : len(bias)]
