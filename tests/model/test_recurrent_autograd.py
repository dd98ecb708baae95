"""The recurrences by hand, against torch's kernels and against finite differences, in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ds2.model.config import CLIP
from ds2.model.recurrent_autograd import gru, rnn

Recurrence = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
CASES = [(rnn, 1, torch.rnn_relu), (gru, 3, torch.gru)]


def arguments(gates: int, frames: int, utterances: int, hidden: int) -> list[Tensor]:
    """x of two inputs, W, b, h_0, U, c."""
    generator = torch.Generator().manual_seed(frames)
    rows = gates * hidden
    shapes = [(frames, utterances, 2), (rows, 2), (rows,), (utterances, hidden), (rows, hidden), (rows,)]
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    made[4] /= 2 * hidden**0.5
    return [tensor.requires_grad_() for tensor in made]


@pytest.mark.parametrize(("recurrence", "gates", "kernel"), CASES)
@pytest.mark.parametrize(("frames", "utterances", "hidden"), [(1, 1, 1), (7, 1, 3), (20, 4, 5)])
def test_equals_the_fused_kernel(
    recurrence: Recurrence,
    gates: int,
    kernel: Callable[..., tuple[Tensor, ...]],
    frames: int,
    utterances: int,
    hidden: int,
) -> None:
    """Values and all gradients."""
    x, weight, bias, start, recurrent_weight, c = inputs = arguments(gates, frames, utterances, hidden)
    parameters = (weight, recurrent_weight, bias, c)
    theirs = kernel(x, start.unsqueeze(0), parameters, True, 1, 0.0, True, False, False)[0]
    ours = recurrence(*inputs)
    assert float(theirs.detach().max()) < CLIP
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(theirs)
    found = torch.autograd.grad(ours, inputs, direction)
    expected = torch.autograd.grad(theirs, inputs, direction)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("recurrence", "gates"), [(rnn, 1), (gru, 3)])
def test_gradients(recurrence: Recurrence, gates: int) -> None:
    assert torch.autograd.gradcheck(recurrence, arguments(gates, 4, 2, 3))


def test_states_at_the_clip_pass_no_gradient() -> None:
    """x = 15, U = 1: states 15, 20 (clipped), 20 (clipped); only the first input reaches a state below the clip."""
    one, none = torch.ones(1, 1).double(), torch.zeros(1).double()
    x = torch.full((3, 1, 1), 15.0, dtype=torch.float64, requires_grad=True)
    states = rnn(x, one, none, torch.zeros(1, 1).double(), one, none)
    assert states.flatten().tolist() == [15.0, 20.0, 20.0]
    [grad] = torch.autograd.grad(states.sum(), x)
    assert grad.flatten().tolist() == [1.0, 0.0, 0.0]


def test_computes_in_the_precision_of_the_weights() -> None:
    x, weight, bias, start, recurrent_weight, c = (tensor.float() for tensor in arguments(3, 5, 2, 4))
    with torch.autocast("cpu"):
        assert gru(x, weight, bias, start, recurrent_weight, c).dtype == torch.float32


def test_under_autocast_a_gru_rounds_its_products_alone() -> None:
    """Values and gradients are those of full precision but for the rounding of factors, 2^-9 of each."""
    inputs = [tensor.detach().float().requires_grad_() for tensor in arguments(3, 12, 4, 8)]
    exact = gru(*inputs)
    direction = torch.randn(exact.shape, generator=torch.Generator().manual_seed(1))
    expected = torch.autograd.grad(exact, inputs, direction)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = gru(*inputs)
    assert rounded.dtype == torch.float32
    assert 0.0 < float((rounded - exact).detach().abs().max()) < 0.03
    for one, other in zip(torch.autograd.grad(rounded, inputs, direction), expected, strict=True):
        assert float((one - other).norm()) < 0.05 * float(other.norm())
