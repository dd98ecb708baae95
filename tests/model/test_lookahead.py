"""Row convolution against its formula."""

import pytest
import torch

from ds2.model.lookahead import RowConvolution


@pytest.mark.parametrize("tau", [1, 5, 19])
def test_equals_the_formula(tau: int) -> None:
    layer = RowConvolution(3, tau).double()
    h = torch.randn(2, 10, 3, dtype=torch.float64)
    expected = torch.zeros_like(h)
    for t in range(10):
        for j in range(tau + 1):
            if t + j < 10:
                expected[:, t] += layer.weight[:, j] * h[:, t + j]
    assert torch.allclose(layer(h), expected, atol=1e-12)


def test_starts_near_the_present_frame() -> None:
    layer, h = RowConvolution(8, 5), torch.randn(1, 20, 8)
    assert (layer(h) - h).abs().mean() < 0.2


def test_gradients_by_finite_differences() -> None:
    layer = RowConvolution(2, 3).double()
    h = torch.randn(1, 5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (h,))
