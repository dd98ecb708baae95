"""Schedules by hand, and how Muon moves a matrix."""

import pytest
import torch
from torch import nn

from ds2.train.config import OptimizerConfig
from ds2.train.optimizer import Muon, OrthogonalMomentum, learning_rate


def test_sgd_is_annealed_after_each_epoch() -> None:
    config = OptimizerConfig("sgd", 6e-4, annealing=1.2)
    assert learning_rate(config, 0, 100, 0) == learning_rate(config, 9, 100, 0) == 6e-4
    assert learning_rate(config, 10, 100, 2) == pytest.approx(6e-4 / 1.44)


def test_one_cycle_rises_then_falls_to_nothing() -> None:
    config = OptimizerConfig("adamw", 1.0, warmup=0.1)
    rates = [learning_rate(config, step, 100, 0) for step in range(101)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == pytest.approx(0.0)


def test_muon_moves_all_directions_of_a_hidden_matrix_alike() -> None:
    """Whatever the gradient's singular values, those of the update are near one size; the rest moves as by AdamW."""
    torch.manual_seed(3)
    model = nn.ModuleDict({"hidden": nn.Linear(24, 16), "output": nn.Linear(16, 4)})
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    gradient = torch.randn(16, 24) @ torch.diag(torch.logspace(0, -2, 24))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    model["hidden"].weight.grad = gradient
    Muon(model, learning_rate=0.1, weight_decay=0.0).step()
    moved = {name: before[name] - value.detach() for name, value in model.named_parameters()}
    sizes = torch.linalg.svdvals(moved["hidden.weight"])
    assert float(sizes.max() / sizes.min()) < 2 < 10 < float(torch.linalg.cond(gradient))
    assert float(moved["hidden.weight"].square().mean().sqrt()) == pytest.approx(0.1 * 0.2, rel=0.3)
    for name in ("hidden.bias", "output.weight", "output.bias"):
        torch.testing.assert_close(moved[name], torch.full_like(moved[name], 0.1), rtol=1e-3, atol=0)


@pytest.mark.parametrize("shape", [(16, 24), (24, 16)])
def test_it_moves_as_torchs_muon_does(shape: tuple[int, int]) -> None:
    torch.manual_seed(4)
    start, gradients = torch.randn(shape), torch.randn(6, *shape)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    options = {"lr": 0.1, "weight_decay": 0.1}
    both = [
        (ours, OrthogonalMomentum([ours], options)),
        (theirs, torch.optim.Muon([theirs], **options, adjust_lr_fn="match_rms_adamw")),
    ]
    for gradient in gradients:
        for weight, optimizer in both:
            weight.grad = gradient.clone()
            optimizer.step()
    moved, expected = (ours - start).detach(), (theirs - start).detach()
    assert float((moved - expected).norm() / expected.norm()) < 0.03  # theirs is in bfloat16
