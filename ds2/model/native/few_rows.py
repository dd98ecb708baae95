"""Products of a few rows with a large matrix: a live step's.

    weights n, n + 1 (K)  x  rows m .. m + 3 (K)  -->  8 sums, in registers until the row ends

A library for matrices first copies the weights into tiles, which costs more than all products with a few rows; this
reads each weight once for four rows.
"""

import numpy as np

from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

FEW = 32  # rows up to which this is faster than NumPy's library


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def multiply_few_rows(x, weight, result):  # type: ignore[no-untyped-def]
    """result (M, N) = x (M, K) weight^T (N, K), all float32; the caller has checked the shapes."""
    rows, outputs, size = np.uint64(len(x)), np.uint64(len(weight)), np.uint64(weight.shape[1])
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    # Tiles of four rows and two outputs; rows and outputs that are left over go one by one.
    m = np.uint64(0)
    while m + four <= rows:
        n = np.uint64(0)
        while n + two <= outputs:
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
            for k in range(size):
                a, b = weight[n, k], weight[n + one, k]
                x0, x1, x2, x3 = x[m, k], x[m + one, k], x[m + two, k], x[m + three, k]
                a0, a1, a2, a3 = a0 + a * x0, a1 + a * x1, a2 + a * x2, a3 + a * x3
                b0, b1, b2, b3 = b0 + b * x0, b1 + b * x1, b2 + b * x2, b3 + b * x3
            result[m, n], result[m + one, n], result[m + two, n], result[m + three, n] = a0, a1, a2, a3
            n += one
            result[m, n], result[m + one, n], result[m + two, n], result[m + three, n] = b0, b1, b2, b3
            n += one
        if n < outputs:
            for row in range(m, m + four):
                result[row, n] = _dot(x, row, weight, n, size)
        m += four
    while m < rows:
        for n in range(outputs):
            result[m, n] = _dot(x, m, weight, n, size)
        m += one


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False, forceinline=True)
def _dot(x, m, weight, n, size):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for k in range(size):
        total += weight[n, k] * x[m, k]
    return total
