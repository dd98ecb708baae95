"""exp for x <= 0, in loops that the compiler turns into vector instructions; libm's exp would stop it from doing so.

Kernels have `compiled_exp.py` in its place.
"""

import numpy as np

from ds2.utils.jit import taught_by

# What fastmath may do in loops with it; never "nnan" or "ninf": NaN must come through
REORDER = {"reassoc", "contract", "nsz", "arcp"}


taught_by("ds2.utils.compiled_exp")


def exponential(x: float) -> float:
    """exp(x) for x <= 0, float32 or float64, inside numba kernels."""
    return float(np.exp(x))
