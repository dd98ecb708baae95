"""What numba compiles for `exponential`: exp for x <= 0, as a polynomial.

    x = n ln 2 + r,  |r| <= ln 2 / 2:   exp(x) = 2^n exp(r),  exp(r) by its Taylor series, 2^n added to the exponent

n is found by adding a number so large that the sum has no fraction bits left; its low bits are then n itself.
Accurate to 2 ulp; at or below the lowest representable power the result is that power, never 0; NaN stays NaN.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from ds2.utils.fast_exp import exponential

LOWEST_64 = -708.0  # exp of it is still a normal number
LOWEST_32 = np.float32(-87.0)
LOG2E_32, LN2_HIGH_32, LN2_LOW_32 = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
LOG2E_64, LN2_HIGH_64, LN2_LOW_64 = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
ROUND_32, ROUND_64 = np.float32(1.5 * 2**23), 1.5 * 2**52
ONE_32 = np.float32(1.0)


@intrinsic
def _bits_32(typingctx, value):  # type: ignore[no-untyped-def]
    return types.int32(types.float32), lambda c, b, s, args: b.bitcast(args[0], ir.IntType(32))


@intrinsic
def _bits_64(typingctx, value):  # type: ignore[no-untyped-def]
    return types.int64(types.float64), lambda c, b, s, args: b.bitcast(args[0], ir.IntType(64))


@intrinsic
def _add_exponent_32(typingctx, value, shifted):  # type: ignore[no-untyped-def]
    """float32 * 2^n, n in the low bits of the int32 `shifted`; wraps as the hardware does."""

    def build(c, b, s, args):  # type: ignore[no-untyped-def]
        bits = b.bitcast(args[0], ir.IntType(32))
        return b.bitcast(b.add(bits, b.shl(args[1], ir.Constant(ir.IntType(32), 23))), ir.FloatType())

    return types.float32(types.float32, types.int32), build


@intrinsic
def _add_exponent_64(typingctx, value, shifted):  # type: ignore[no-untyped-def]
    """float64 * 2^n, n in the low bits of the int64 `shifted`; wraps as the hardware does."""

    def build(c, b, s, args):  # type: ignore[no-untyped-def]
        bits = b.bitcast(args[0], ir.IntType(64))
        return b.bitcast(b.add(bits, b.shl(args[1], ir.Constant(ir.IntType(64), 52))), ir.DoubleType())

    return types.float64(types.float64, types.int64), build


def _taylor(terms: int, kind: type) -> tuple:
    """1/terms!, ..., 1/2!, 1: the coefficients of exp(r) - 1, highest power first."""
    factorials = np.cumprod(np.arange(1, terms + 1, dtype=np.float64))
    return tuple(kind(1.0 / factorial) for factorial in factorials[::-1])


A7, A6, A5, A4, A3, A2, A1 = _taylor(7, np.float32)
B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1 = _taylor(12, float)


@numba.njit(fastmath={"contract"})
def _exp_32(x):  # type: ignore[no-untyped-def]
    x = LOWEST_32 if x < LOWEST_32 else x
    rounded = x * LOG2E_32 + ROUND_32
    n = rounded - ROUND_32
    r = (x - n * LN2_HIGH_32) - n * LN2_LOW_32
    series = r * (A1 + r * (A2 + r * (A3 + r * (A4 + r * (A5 + r * (A6 + r * A7))))))
    return _add_exponent_32(ONE_32 + series, _bits_32(rounded))


@numba.njit(fastmath={"contract"})
def _exp_64(x):  # type: ignore[no-untyped-def]
    x = LOWEST_64 if x < LOWEST_64 else x
    rounded = x * LOG2E_64 + ROUND_64
    n = rounded - ROUND_64
    r = (x - n * LN2_HIGH_64) - n * LN2_LOW_64
    high = r * (B8 + r * (B9 + r * (B10 + r * (B11 + r * B12))))
    series = r * (B1 + r * (B2 + r * (B3 + r * (B4 + r * (B5 + r * (B6 + r * (B7 + high)))))))
    return _add_exponent_64(1.0 + series, _bits_64(rounded))


@overload(exponential, inline="always")
def _exponential(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: _exp_32(x)
    return lambda x: _exp_64(x)
