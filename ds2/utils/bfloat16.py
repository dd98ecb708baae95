"""bfloat16 in numba's loops: the upper 16 bits of a float32, kept in arrays of uint16, which numba knows.

`real` and `store` leave arrays of other types as they are, so that a kernel is written once for all precisions.
"""

from typing import Any

from ds2.utils.jit import taught_by

taught_by("ds2.utils.compiled_bfloat16")


def real(value: Any) -> Any:
    """A value of an array as a number to calculate with."""
    return value


def store(array: Any, index: int, value: Any) -> None:
    """array[index] = value, rounded to the array's type."""
    array[index] = value
