"""The recurrences by hand, against torch's kernels and against finite differences, in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ds2.model.normalization import CLIP
from ds2.model.recurrence import gru, rnn

Recurrence = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
CASES = [(rnn, 1, torch.rnn_relu), (gru, 3, torch.gru)]


def arguments(gates: int, frames: int, utterances: int, hidden: int) -> list[Tensor]:
    """Input terms, first state, recurrent weight, bias."""
    generator = torch.Generator().manual_seed(frames)
    shapes = [(frames, utterances, gates * hidden), (utterances, hidden), (gates * hidden, hidden), (gates * hidden,)]
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    made[2] /= 2 * hidden**0.5
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
    """Values and all gradients; the kernel's input weight is the identity."""
    terms, start, weight, bias = inputs = arguments(gates, frames, utterances, hidden)
    unit, none = torch.eye(gates * hidden, dtype=torch.float64), torch.zeros(gates * hidden, dtype=torch.float64)
    parameters = (unit, weight, none, bias)
    theirs = kernel(terms, start.unsqueeze(0), parameters, True, 1, 0.0, True, False, False)[0]
    ours = recurrence(terms, start, weight, bias)
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
    """x = 15, U = 1: states 15, 20 (clipped), 20 (clipped); only the first term and the start reach the first state."""
    terms = torch.full((3, 1, 1), 15.0, dtype=torch.float64, requires_grad=True)
    start, weight, bias = torch.zeros(1, 1).double(), torch.ones(1, 1).double(), torch.zeros(1).double()
    states = rnn(terms, start, weight, bias)
    assert states.flatten().tolist() == [15.0, 20.0, 20.0]
    [grad] = torch.autograd.grad(states.sum(), terms)
    assert grad.flatten().tolist() == [1.0, 0.0, 0.0]


def test_computes_in_the_precision_of_the_weights() -> None:
    terms, start, weight, bias = (tensor.float() for tensor in arguments(3, 5, 2, 4))
    states = gru(terms.bfloat16(), start.bfloat16(), weight, bias)
    assert states.dtype == torch.float32
