"""Batch normalisation against normalising the valid frames directly."""

import pytest
import torch
from torch import Tensor

from ds2.model.config import EPSILON
from ds2.model.frontend import valid_mask
from ds2.model.normalization import MOMENTUM, ChannelBatchNorm, FoldedBatchNorm, input_moments


def normalized(z: Tensor) -> Tensor:
    """(N, H) -> (N, H) by the textbook."""
    return (z - z.mean(0)) / torch.sqrt(z.var(0, unbiased=False) + EPSILON)


def test_channel_norm_counts_valid_frames_only() -> None:
    x, valid = 3 + torch.randn(2, 3, 4, 5, dtype=torch.float64), valid_mask(torch.tensor([5, 2]), 5)
    norm = ChannelBatchNorm(3).double()
    result = norm(torch.where(valid[:, None, None, :], x, 0.0), valid).permute(0, 3, 2, 1)
    rows = x.permute(0, 3, 2, 1)[valid].reshape(-1, 3)
    assert torch.allclose(result[valid].reshape(-1, 3), normalized(rows).clamp(0, 20), atol=1e-10)
    assert result[~valid].abs().sum() == 0
    assert torch.allclose(norm.mean, MOMENTUM * rows.mean(0))
    assert torch.allclose(norm.variance, (1 - MOMENTUM) + MOMENTUM * rows.var(0))


def test_channel_norm_has_the_gradients_of_its_formula() -> None:
    """By hand-written backward; with padding, a clip that is reached, a channel that is constant."""
    torch.manual_seed(1)
    x = torch.randn(3, 4, 5, 6, dtype=torch.float64)
    x[:, 3] = 2.0
    valid = valid_mask(torch.tensor([6, 3, 1]), 6)
    x = torch.where(valid[:, None, None, :], x, 0.0).requires_grad_()
    norm = ChannelBatchNorm(4).double()
    with torch.no_grad():
        norm.gamma.copy_(torch.tensor([1.0, -0.5, 15.0, 1.0]))
        norm.beta.copy_(torch.tensor([0.1, 0.5, 5.0, 0.7]))
    pull = torch.randn(3, 4, 5, 6, dtype=torch.float64)
    ours = torch.autograd.grad((norm(x, valid) * pull).sum(), (x, norm.gamma, norm.beta))
    ours = (torch.where(valid[:, None, None, :], ours[0], 0.0), *ours[1:])  # behind an utterance it is the caller's
    rows = x.permute(0, 3, 2, 1)[valid].reshape(-1, 4)
    expected = (normalized(rows) * norm.gamma + norm.beta).clamp(0, 20)
    assert expected.max() == 20
    weights = pull.permute(0, 3, 2, 1)[valid].reshape(-1, 4)
    direct = torch.autograd.grad((expected * weights).sum(), (x, norm.gamma, norm.beta))
    for mine, theirs in zip(ours, direct, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-8)


def test_folded_norm_equals_normalising_the_product() -> None:
    x, valid = torch.randn(3, 6, 4, dtype=torch.float64), valid_mask(torch.tensor([6, 1, 4]), 6)
    weight = torch.randn(7, 4, dtype=torch.float64)
    norm = FoldedBatchNorm(7).double()
    folded, bias = norm(weight, input_moments(x, valid))
    assert torch.allclose((x @ folded.T + bias)[valid], normalized((x @ weight.T)[valid]), atol=1e-10)


def test_folded_norm_has_the_gradients_of_normalising_the_product() -> None:
    x = torch.randn(3, 6, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    valid, pull = valid_mask(torch.tensor([6, 1, 4]), 6), torch.randn(11, 7, dtype=torch.float64)
    folded, bias = FoldedBatchNorm(7).double()(weight, input_moments(x, valid))
    ours = torch.autograd.grad(((x @ folded.T + bias)[valid] * pull).sum(), (x, weight))
    direct = torch.autograd.grad((normalized((x @ weight.T)[valid]) * pull).sum(), (x, weight))
    for mine, theirs in zip(ours, direct, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-9)


def test_running_statistics_move_by_the_momentum_with_unbiased_variance() -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    valid = valid_mask(torch.tensor([5, 3]), 5)
    norm, weight = FoldedBatchNorm(3).double(), torch.eye(3, dtype=torch.float64)
    norm(weight, input_moments(x, valid))
    assert torch.allclose(norm.mean, MOMENTUM * x[valid].mean(0))
    assert torch.allclose(norm.variance, (1 - MOMENTUM) + MOMENTUM * x[valid].var(0))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_minibatch_that_is_not_finite_leaves_running_statistics_alone(value: float) -> None:
    norm, x = ChannelBatchNorm(2), torch.randn(1, 2, 3, 4)
    x[0, 1, 0, 0] = value
    norm(x, torch.ones(1, 4, dtype=torch.bool))
    assert torch.equal(norm.mean, torch.zeros(2))
    assert torch.equal(norm.variance, torch.ones(2))


def test_deployment_uses_running_statistics() -> None:
    norm = FoldedBatchNorm(2)
    norm.mean.copy_(torch.tensor([1.0, 2.0]))
    norm.variance.copy_(torch.tensor([4.0, 9.0]))
    weight, bias = norm(torch.eye(2), None)
    result = torch.tensor([[3.0, 5.0]]) @ weight.T + bias
    assert torch.allclose(result, torch.tensor([[1.0, 1.0]]), atol=1e-4)


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_constant_input_gives_finite_results_and_gradients(constant: float) -> None:
    x = torch.full((1, 4, 3), constant, requires_grad=True)
    weight, bias = FoldedBatchNorm(2)(torch.randn(2, 3), input_moments(x, torch.ones(1, 4, dtype=torch.bool)))
    result = x @ weight.T + bias
    result.sum().backward()
    assert result.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()
