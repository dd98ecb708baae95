"""Convolutions against plain loops, and their masks."""

import pytest
import torch
from torch import Tensor

from ds2.model.activation import clipped_relu
from ds2.model.config import ConvolutionConfig
from ds2.model.convolution import Convolution


def convolution_by_hand(layer: Convolution, x: Tensor) -> Tensor:
    """(C, F, T) of one utterance -> (C', F', T') before the nonlinearity, tap by tap with "same" zeros around."""
    weight, bias = layer.kernel.weight, layer.kernel.bias
    height, width = weight.shape[2:]
    step_up, step_on = layer.config.stride
    padded = torch.nn.functional.pad(x, (width // 2, width // 2, height // 2, height // 2))
    rows = range(0, x.shape[1], step_up)
    columns = range(0, x.shape[2], step_on)
    result = torch.empty(len(weight), len(rows), len(columns), dtype=x.dtype)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            patch = padded[:, row : row + height, column : column + width]
            result[:, i, j] = (weight * patch).sum((1, 2, 3)) + bias
    return result


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (2, 3), (4, 3)])
def test_equals_the_loops(stride: tuple[int, int]) -> None:
    layer = Convolution(2, 7, ConvolutionConfig(3, (5, 3), stride), batch_norm=False).double()
    x = torch.randn(1, 2, 7, 9, dtype=torch.float64)
    result, lengths = layer(x, torch.tensor([9]))
    assert torch.allclose(result[0], clipped_relu(convolution_by_hand(layer, x[0])), atol=1e-12)
    assert lengths.tolist() == [result.shape[3]]


@pytest.mark.parametrize("batch_norm", [True, False])
def test_alone_and_in_a_batch_agree(batch_norm: bool) -> None:
    layer = Convolution(1, 9, ConvolutionConfig(4, (5, 5), (2, 3)), batch_norm).eval()
    x = torch.randn(2, 1, 9, 20)
    x[1, :, :, 8:] = 0
    together, lengths = layer(x, torch.tensor([20, 8]))
    alone, _ = layer(x[1:, :, :, :8], torch.tensor([8]))
    assert lengths.tolist() == [7, 3]
    assert torch.allclose(together[1, :, :, :3], alone[0], atol=1e-6)
    assert together[1, :, :, 3:].abs().sum() == 0


def test_clips_at_twenty() -> None:
    assert clipped_relu(torch.tensor([-1.0, 5.0, 21.0])).tolist() == [0.0, 5.0, 20.0]


def test_even_kernels_are_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        ConvolutionConfig(4, (4, 5))


@pytest.mark.parametrize("lookahead", [0, 1, 3, 4])
def test_lookahead_bounds_what_a_frame_sees(lookahead: int) -> None:
    """Output frame t depends on all inputs from t - before to t + lookahead, and on no others."""
    layer = Convolution(1, 6, ConvolutionConfig(2, (3, 5), (1, 1), lookahead), batch_norm=False)
    x = torch.rand(1, 1, 6, 12, requires_grad=True)
    torch.nn.init.ones_(layer.kernel.weight)
    (gradient,) = torch.autograd.grad(layer(x, torch.tensor([12]))[0][..., 6].sum(), x)
    context = gradient.abs().sum((0, 1, 2)).nonzero().flatten().tolist()
    assert context == list(range(6 - (4 - lookahead), 6 + lookahead + 1))


def test_symmetric_lookahead_is_the_default() -> None:
    layer = Convolution(1, 6, ConvolutionConfig(2, (3, 5), (2, 3), 2), batch_norm=False)
    other = Convolution(1, 6, ConvolutionConfig(2, (3, 5), (2, 3)), batch_norm=False)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 1, 6, 13)
    assert torch.allclose(layer(x, torch.tensor([13, 7]))[0], other(x, torch.tensor([13, 7]))[0], atol=1e-6)


def test_one_dimensional_kernels_take_all_bins_at_once() -> None:
    config = ConvolutionConfig(5, (0, 3), (1, 2))
    layer = Convolution(1, 4, config, batch_norm=False).double()
    x = torch.randn(1, 1, 4, 9, dtype=torch.float64)
    result, _ = layer(x, torch.tensor([9]))
    plain = torch.nn.functional.conv1d(x[:, 0], layer.kernel.weight[:, 0], layer.kernel.bias, 2, 1)
    assert config.bins(4) == 1
    assert torch.allclose(result[:, :, 0], clipped_relu(plain), atol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"channels": 0},
        {"stride": (0, 1)},
        {"lookahead": 11},
        {"lookahead": -1},
        {"kernel": (41, 0)},
        {"kernel": (41, 1), "stride": (1, 2)},
    ],
)
def test_impossible_layers_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        ConvolutionConfig(**change)
