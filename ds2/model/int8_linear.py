"""A dense layer with weights in int8 and activations in float32, for a few streams on a CPU.

A step of a large model is bound by the reading of its weights: int8 has a quarter of float32's bytes, with a scale for
each output. The kernel reads each weight once for four rows of x, two outputs at a time:

             x 4 rows                 v, w: the same weight of two outputs, as float32
    q  m     [v] ---> 4 sums
       m + 1 [w] ---> 4 sums
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ds2.utils.devices import cpu_threads
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

LARGEST = 127
LEAST_WEIGHTS = 1 << 20  # a smaller matrix stays in a core's cache, where float32 is faster

kernel = njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)


@dataclass(frozen=True)
class Int8Weight:
    """(M, K) levels in int8 and (M,) float32 scales, whose product is the weight."""

    levels: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, weight: Tensor) -> "Int8Weight":
        """Rounds an (M, K) weight; each row's largest becomes 127."""
        largest = weight.abs().amax(1)
        scale = torch.where(largest > 0, largest / LARGEST, 1.0)
        levels = (weight / scale.unsqueeze(1)).round().to(torch.int8)
        return cls(levels.contiguous().numpy(), scale.float().numpy())


@kernel
def products(x, levels, scale, bias, y, first, last):  # type: ignore[no-untyped-def]
    """y[:, first:last] of y (N, M) = x (N, K) levels (M, K)^T * scale + bias."""
    rows, size = x.shape
    zero = np.float32(0)
    for m in range(first, last, 2):
        one, other = levels[m], levels[min(m + 1, last - 1)]
        for i in range(0, rows, 4):
            left = rows - i
            x0, x1 = x[i], x[min(i + 1, rows - 1)]
            x2, x3 = x[min(i + 2, rows - 1)], x[min(i + 3, rows - 1)]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            if left > 2:
                for j in range(size):
                    v, w = np.float32(one[j]), np.float32(other[j])
                    a0 += v * x0[j]
                    a1 += v * x1[j]
                    a2 += v * x2[j]
                    a3 += v * x3[j]
                    b0 += w * x0[j]
                    b1 += w * x1[j]
                    b2 += w * x2[j]
                    b3 += w * x3[j]
            else:
                for j in range(size):
                    v, w = np.float32(one[j]), np.float32(other[j])
                    a0 += v * x0[j]
                    a1 += v * x1[j]
                    b0 += w * x0[j]
                    b1 += w * x1[j]
            for n, a, b in ((0, a0, b0), (1, a1, b1), (2, a2, b2), (3, a3, b3)):
                if n < left:
                    y[i + n, m] = a * scale[m] + bias[m]
                    if m + 1 < last:
                        y[i + n, m + 1] = b * scale[m + 1] + bias[m + 1]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def int8_linear(x: Tensor, weight: Int8Weight, bias: Tensor) -> Tensor:
    """x W^T + bias: (N, K) float32, (M, K), (M,) -> (N, M) float32, in `cpu_threads()` threads."""
    outputs, threads = len(weight.levels), cpu_threads()
    y = np.empty((len(x), outputs), np.float32)
    arguments = (np.ascontiguousarray(x.numpy()), weight.levels, weight.scale, bias.numpy(), y)
    bounds = [2 * (outputs * part // (2 * threads)) for part in range(threads)] + [outputs]
    if threads == 1:
        products(*arguments, 0, outputs)
    else:
        list(_pool(threads).map(lambda part: products(*arguments, bounds[part], bounds[part + 1]), range(threads)))
    return torch.from_numpy(y)
