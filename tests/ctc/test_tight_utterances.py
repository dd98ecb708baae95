"""Utterances with as many frames as their labels require, or few more, at scales where probabilities underflow.

With exactly `required_frames` there is one alignment alone, so the loss and its gradient are known in closed form. Such
utterances put the most extreme numbers into the trellis: a frame may leave no more than 1e-280 of the probability.
"""

import ctypes
import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from helpers.kernels import emulate
from torch import Tensor

from ds2.ctc import ctc_loss
from ds2.ctc.cuda import run_ctc_kernels
from ds2.ctc.loss import required_frames
from ds2.ctc.loss_inputs import LossInputs

SCALES = (0.1, 300.0)  # of the logits: each utterance has its own, log-uniform
Result = tuple[Tensor, Tensor]


class Batch(NamedTuple):
    logits: Tensor  # (B, T, V) float64
    targets: Tensor  # (B, L)
    input_lengths: Tensor  # (B,)
    target_lengths: Tensor  # (B,)


@pytest.fixture(scope="session")
def emulated() -> ctypes.CDLL:
    return emulate("ctc")


def random_batch(seed: int, size: int, most_labels: int, slack: int = 0) -> Batch:
    """Utterances of 0 to `most_labels` labels, with up to `slack` frames more than required."""
    generator = torch.Generator().manual_seed(seed)
    outputs = int(torch.randint(2, 9, (), generator=generator))
    targets = torch.randint(1, outputs, (size, most_labels), generator=generator)
    target_lengths = torch.randint(0, most_labels + 1, (size,), generator=generator)
    input_lengths = required_frames(targets, target_lengths)
    input_lengths = input_lengths + torch.randint(0, slack + 1, (size,), generator=generator)
    low, high = (math.log(scale) for scale in SCALES)
    scales = (low + (high - low) * torch.rand(size, 1, 1, generator=generator)).exp()
    shape = (size, max(1, int(input_lengths.max())), outputs)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64) * scales
    return Batch(logits, targets, input_lengths, target_lengths)


def only_path(batch: Batch) -> tuple[Tensor, Tensor]:
    """(B, T) outputs of the one alignment of tight utterances, and whether a frame is within its utterance."""
    _, targets, input_lengths, target_lengths = batch
    repeated = torch.nn.functional.pad(targets[:, 1:] == targets[:, :-1], (1, 0))
    places = torch.arange(targets.shape[1]) + repeated.cumsum(1)  # of each label: a blank goes before a repeated one
    frames = batch.logits.shape[1]
    used = torch.arange(targets.shape[1]) < target_lengths.unsqueeze(1)
    path = torch.zeros(len(targets), frames + 1, dtype=torch.long)
    path.scatter_(1, places.where(used, frames), targets)
    return path[:, :frames], torch.arange(frames) < input_lengths.unsqueeze(1)


def of_only_path(batch: Batch) -> Result:
    """Losses of tight utterances and the gradients of their sum, in closed form."""
    path, inside = only_path(batch)
    log_probs = batch.logits.log_softmax(2)
    losses = -log_probs.gather(2, path.unsqueeze(2)).squeeze(2).where(inside, 0.0).sum(1)
    gradient = log_probs.exp() - torch.nn.functional.one_hot(path, log_probs.shape[2])
    return losses, gradient * inside.unsqueeze(2)


def of_torch(batch: Batch) -> Result:
    """Losses of utterances of one frame or more and the gradients of their sum by torch, in log space."""
    logits = batch.logits.detach().requires_grad_()
    losses = torch.nn.functional.ctc_loss(logits.log_softmax(2).transpose(0, 1), *batch[1:], reduction="none")
    return losses.detach(), torch.autograd.grad(losses.sum(), logits)[0]


def on_cpu(logits: Tensor, *rest: Tensor) -> Result:
    scores = logits.detach().requires_grad_()
    losses = ctc_loss(scores, *rest, reduction="none")
    return losses.detach(), torch.autograd.grad(losses.sum(), scores)[0]


def on_emulated_gpu(library: ctypes.CDLL) -> Callable[..., Result]:
    def run(logits: Tensor, *rest: Tensor) -> Result:
        weights = torch.ones(len(logits), dtype=torch.float64)
        return run_ctc_kernels(library, LossInputs(logits, *rest, weights, 0, True))

    return run


def wrong(batch: Batch, kernels: Callable[..., Result], reference: Callable[[Batch], Result]) -> Tensor:
    """(B,) whether the loss or gradient of each utterance differs from the reference, in float64 or float32."""
    differs = torch.zeros(len(batch.logits), dtype=torch.bool)
    single = batch._replace(logits=batch.logits.float().double())
    for case, dtype, loss_error, gradient_error in (
        (batch, torch.float64, 1e-11, 1e-9),
        (single, torch.float32, 1e-6, 2e-5),
    ):
        expected, expected_gradient = reference(case)
        losses, gradient = kernels(case.logits.to(dtype), *case[1:])
        differs |= ~torch.isclose(losses.double(), expected, rtol=loss_error, atol=loss_error)
        differs |= ~((gradient.double() - expected_gradient).abs().amax((1, 2)) <= gradient_error)
    return differs


def check(
    kernels: Callable[..., Result], utterances: int, size: int, most_labels: int, slack: int = 0, first: int = 0
) -> None:
    reference = of_torch if slack else of_only_path
    for seed in range(first, first + -(-utterances // size)):
        batch = random_batch(seed, size, most_labels, slack)
        if slack:
            batch = batch._replace(input_lengths=batch.input_lengths.clamp(min=1))
        failed = wrong(batch, kernels, reference).nonzero().flatten().tolist()
        assert not failed, f"batch {seed}: utterances {failed}"


def product_of_small_sums() -> Batch:
    """Sums of columns of 1e-93 and, frames later, 1e-251: their product is below the least float64."""
    generator = torch.Generator().manual_seed(184753)
    targets = torch.randint(1, 2, (2, 12), generator=generator)
    logits = torch.randn(2, 7, 2, generator=generator, dtype=torch.float64) * 100
    return Batch(logits, targets, torch.tensor([7, 1]), torch.tensor([4, 0]))


def test_sums_of_columns_whose_product_underflows(emulated: ctypes.CDLL) -> None:
    batch = product_of_small_sums()
    losses, _ = of_torch(batch)
    assert float(losses[0]) == pytest.approx(793.5719, abs=1e-4)
    for kernels in (on_cpu, on_emulated_gpu(emulated)):
        assert not wrong(batch, kernels, of_torch).any()


def test_the_closed_form_is_what_torch_finds() -> None:
    batch = random_batch(1, 100, 8)
    batch = batch._replace(input_lengths=batch.input_lengths.clamp(min=1))
    tight = batch.target_lengths > 0
    for expected, found in zip(of_torch(batch), of_only_path(batch), strict=True):
        assert torch.allclose(found[tight], expected[tight], atol=1e-9)


@pytest.mark.parametrize("slack", [0, 3])
def test_many_on_the_cpu(slack: int) -> None:
    check(on_cpu, 10_000, 2_500, 25, slack)


@pytest.mark.parametrize("slack", [0, 3])
def test_some_on_the_emulated_gpu(emulated: ctypes.CDLL, slack: int) -> None:
    check(on_emulated_gpu(emulated), 40, 40, 25, slack)


@pytest.mark.slow
def test_a_million_on_the_cpu() -> None:
    check(on_cpu, 800_000, 4_000, 25, first=1000)
    check(on_cpu, 200_000, 4_000, 25, slack=3, first=2000)
    check(on_cpu, 2_000, 200, 400, first=3000)


@pytest.mark.slow
def test_thousands_on_the_emulated_gpu(emulated: ctypes.CDLL) -> None:
    check(on_emulated_gpu(emulated), 8_000, 200, 25, first=1000)
    check(on_emulated_gpu(emulated), 2_000, 200, 25, slack=3, first=2000)
