"""A time-delay layer against its definition: two convolutions, batch normalisation, clipped ReLU and the bypass."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from ds2.model.config import CLIP, EPSILON, ConvolutionConfig
from ds2.model.frontend import valid_mask
from ds2.model.time_delay import TimeDelay

LENGTHS = torch.tensor([9, 5, 7])
SHAPES = [(3, None), (5, 1), (3, 0), (5, None), (1, None)]  # kernel, lookahead


def layer(kernel: int = 3, lookahead: int | None = None, dropout: float = 0.0) -> TimeDelay:
    torch.manual_seed(0)
    made = TimeDelay(6, ConvolutionConfig(6, (1, kernel), (1, 1), lookahead, bottleneck=4, bypass=0.66), dropout)
    torch.nn.init.normal_(made.norm.gamma)
    torch.nn.init.normal_(made.norm.beta)
    return made.double()


def sound() -> Tensor:
    x = torch.randn(3, 6, 1, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x * valid_mask(LENGTHS, 9)[:, None, None, :]


def product(made: TimeDelay, x: Tensor) -> Tensor:
    """By two convolutions over the padded frames."""
    narrow = made.narrow.view(4, made.first, 6).permute(0, 2, 1).unsqueeze(2)
    wide = made.wide.view(6, made.second, 4).permute(0, 2, 1).unsqueeze(2)
    padded = pad(x, (made.config.before, made.config.after))
    return conv2d(conv2d(padded, narrow.contiguous()), wide.contiguous())


def reference(made: TimeDelay, x: Tensor) -> Tensor:
    mask = valid_mask(LENGTHS, 9)[:, None, None, :].double()
    z = product(made, x)
    mean = (z * mask).sum((0, 2, 3)) / mask.sum()
    variance = ((z - mean[:, None, None]).square() * mask).sum((0, 2, 3)) / mask.sum()
    normalised = (z - mean[:, None, None]) * torch.rsqrt(variance + EPSILON)[:, None, None]
    activated = (made.norm.gamma[:, None, None] * normalised + made.norm.beta[:, None, None]).clamp(0, CLIP)
    return (activated + made.bypass * x) * mask


@pytest.mark.parametrize(("kernel", "lookahead"), SHAPES)
def test_equals_its_definition_in_training(kernel: int, lookahead: int | None) -> None:
    made, x = layer(kernel, lookahead).train(), sound()
    found, lengths = made(x, LENGTHS)
    assert lengths is LENGTHS
    torch.testing.assert_close(found, reference(made, x))
    torch.testing.assert_close(
        made._by_operators(product(made, x), x, valid_mask(LENGTHS, 9)), reference(made, x)
    )  # of other devices


def test_gradients() -> None:
    made, mask = layer().train(), valid_mask(LENGTHS, 9)[:, None, None, :]
    x = sound().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: made(x * mask, LENGTHS)[0], (x, *made.parameters()))


def test_bfloat16_is_near_double_precision() -> None:
    made, x = layer().train(), sound()
    exact = made(x, LENGTHS)[0]
    with torch.autocast("cpu", torch.bfloat16):
        near = made.float()(x.float(), LENGTHS)[0]
    assert near.dtype == torch.bfloat16
    torch.testing.assert_close(near.double(), exact, atol=0.1, rtol=0.05)


@pytest.mark.parametrize(("kernel", "lookahead"), SHAPES)
def test_deployed_a_step_with_context_gives_what_the_whole_gives(kernel: int, lookahead: int | None) -> None:
    made, x = layer(kernel, lookahead), sound()[:1]
    made.train()(sound(), LENGTHS)
    made.eval()
    whole = made(x, LENGTHS[:1])[0]
    padded = pad(x, (made.config.before, made.config.after))
    valid = torch.ones(1, 1, dtype=torch.bool)
    steps = [made.with_context(padded[..., t : t + kernel], valid) for t in range(9)]
    torch.testing.assert_close(torch.cat(steps, dim=3), whole)


def test_running_statistics_are_those_of_valid_frames() -> None:
    made, x = layer().train(), sound()
    made(x, LENGTHS)
    z = product(made, x)
    rows = torch.cat([z[b, :, 0, :length].T for b, length in enumerate(LENGTHS.tolist())])
    torch.testing.assert_close(made.norm.mean, 0.1 * rows.mean(0))
    torch.testing.assert_close(made.norm.variance, 0.9 + 0.1 * rows.var(0))


def test_dropout_drops_a_channel_of_an_utterance_at_all_frames() -> None:
    made, x = layer(dropout=0.5).train(), sound()
    torch.nn.init.constant_(made.norm.beta, 5.0)  # far from 0, so that only dropped channels have none
    torch.nn.init.constant_(made.norm.gamma, 0.1)
    added = made(x, LENGTHS)[0] - made.bypass * x
    dropped = added[0, :, 0].abs() < 1e-12
    assert (dropped.all(1) == dropped.any(1)).all()
    assert 0 < int(dropped.all(1).sum()) < 6
