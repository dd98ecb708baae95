"""The loads and stores of numba's kernels round as torch does."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.utils.bfloat16 import real, store
from ds2.utils.jit import njit

FLOATS = st.lists(st.floats(width=32), min_size=1, max_size=40)


@njit()
def copy(source, target):  # type: ignore[no-untyped-def]
    for i in range(len(source)):
        store(target, i, real(source[i]))


@settings(deadline=None)  # the first example compiles
@given(FLOATS)
def test_store_rounds_to_the_nearest_and_load_widens(values: list[float]) -> None:
    source = np.array(values, np.float32)
    halves, widened = np.empty(len(source), np.uint16), np.empty(len(source), np.float32)
    copy(source, halves)
    copy(halves, widened)
    expected = torch.from_numpy(source).bfloat16().float().numpy()
    assert np.array_equal(widened, expected, equal_nan=True)


def test_arrays_of_other_types_are_copied() -> None:
    source, target = np.array([1 / 3, np.inf]), np.empty(2)
    copy(source, target)
    assert np.array_equal(source, target)
