"""exp in vector loops, against numpy in float64."""

import numpy as np
import pytest

from ds2.utils.fast_exp import exponential
from ds2.utils.jit import njit


@njit()
def exponentials(values: np.ndarray) -> np.ndarray:
    result = np.empty_like(values)
    for i in range(len(values)):
        result[i] = exponential(values[i])
    return result


@pytest.mark.parametrize(("dtype", "lowest", "error"), [(np.float32, -87.0, 1.5e-7), (np.float64, -708.0, 5e-16)])
def test_accurate_over_the_whole_range(dtype: type, lowest: float, error: float) -> None:
    values = np.linspace(lowest, 0.0, 100_001).astype(dtype)
    expected = np.exp(values.astype(np.float64))
    assert np.max(np.abs(exponentials(values) / expected - 1)) < error


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges(dtype: type) -> None:
    zero, negative_zero, nan, infinite, far = exponentials(np.array([0.0, -0.0, np.nan, -np.inf, -1e30], dtype))
    assert zero == negative_zero == 1
    assert np.isnan(nan)
    assert infinite == far == pytest.approx(np.exp(-87.0 if dtype is np.float32 else -708.0), rel=1e-6, abs=0)
