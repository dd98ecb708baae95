"""What is minimised: label smoothing, and pieces without utterances."""

import copy
import dataclasses
from pathlib import Path

import torch
from conftest import TINY
from helpers.training import Manifests, plain_config, train_batch

from ds2.data.dataset import Batch
from ds2.train.config import OptimizerConfig
from ds2.train.objective import Objective, to_uniform
from ds2.train.trainer import Trainer


def test_label_smoothing_by_hand() -> None:
    """Two frames of two outputs, p = (0.5, 0.5) and (0.8, 0.2), a third frame beyond the length."""
    logits = torch.tensor([[[0.5, 0.5], [0.8, 0.2], [0.9, 0.1]]]).log()
    expected = 0.0 + 0.8 * torch.tensor(1.6).log() + 0.2 * torch.tensor(0.4).log()
    torch.testing.assert_close(to_uniform(logits, torch.tensor([2])), expected.unsqueeze(0))


def test_label_smoothing_is_a_weighted_part_of_the_loss(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(plain_config(spoken_digits(4)), tmp_path / "run")
    batch = train_batch(trainer)

    def losses(weight: float) -> torch.Tensor:
        config = plain_config(Path("-"), optimizer=OptimizerConfig(label_smoothing=weight))
        return Objective(copy.deepcopy(trainer.model).eval(), config)(batch, (1, 1, 0))[0].detach()

    plain, half, all_ = losses(0.0), losses(0.5), losses(1.0)
    torch.testing.assert_close(half, (plain + all_) / 2)


def test_an_empty_piece_costs_nothing_and_leaves_statistics_alone(spoken_digits: Manifests, tmp_path: Path) -> None:
    model = dataclasses.replace(TINY, random_walk=2, fully_connected=8)
    trainer = Trainer(plain_config(spoken_digits(4), model=model), tmp_path / "run")
    before = {name: buffer.clone() for name, buffer in trainer.model.named_buffers()}
    empty = Batch(torch.zeros(0, 0), torch.zeros(0), torch.zeros(0, 0), torch.zeros(0), [], [])
    losses, _ = Objective(trainer.model.train(), trainer.config)(empty, (1, 0, 0))
    losses.sum().backward()
    assert float(losses.detach().sum()) == 0
    for parameter in trainer.model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()
    assert all(torch.equal(buffer, before[name]) for name, buffer in trainer.model.named_buffers())
