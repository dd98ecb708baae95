"""The logistic function and the hyperbolic tangent of a scalar, inside kernels, in loops that become vector
instructions."""

from ds2.utils.fast_exp import REORDER, exponential
from ds2.utils.jit import njit

inlined_fast = njit(error_model="numpy", fastmath=REORDER, _nrt=False, forceinline=True)


@inlined_fast
def sigmoid(x, one):  # type: ignore[no-untyped-def]
    """`one` is a 1 of the type of x: a literal would make all float64."""
    power = exponential(-abs(x))
    share = one / (one + power)
    return share if x >= 0 else power * share


@inlined_fast
def tanh(x, one):  # type: ignore[no-untyped-def]
    """The hyperbolic tangent; `one` is 1 in the type of x."""
    size = abs(x)
    power = exponential(-(size + size))
    result = (one - power) / (one + power)
    return result if x >= 0 else -result
