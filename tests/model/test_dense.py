"""The fully connected layer."""

import torch

from ds2.model.config import EPSILON
from ds2.model.dense import FullyConnected


def test_normalises_over_valid_frames_and_clips() -> None:
    layer = FullyConnected(3, 5, batch_norm=True).double()
    h = torch.randn(2, 4, 3, dtype=torch.float64)
    terms = torch.cat([h[0], h[1, :2]]) @ layer.weight.T
    expected = ((terms - terms.mean(0)) / torch.sqrt(terms.var(0, unbiased=False) + EPSILON)).clamp(0, 20)
    result = layer(h, torch.tensor([4, 2]))
    assert torch.allclose(torch.cat([result[0], result[1, :2]]), expected, atol=1e-10)


def test_without_batch_norm_it_is_linear_and_clipped() -> None:
    layer = FullyConnected(3, 5, batch_norm=False)
    h = 100 * torch.randn(2, 4, 3)
    expected = (h @ layer.weight.T + layer.norm.bias).clamp(0, 20)
    assert torch.allclose(layer(h, torch.tensor([4, 2])), expected, atol=1e-4)
    assert expected.max() == 20
