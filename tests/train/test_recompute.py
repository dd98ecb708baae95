"""Activation checkpointing: the same bits, less memory."""

import copy
import dataclasses
from pathlib import Path

import torch
from conftest import TINY
from helpers.training import Manifests, plain_config, train_batch, trained_weights

from ds2.train.config import ComputeConfig
from ds2.train.objective import Objective
from ds2.train.trainer import Trainer


def test_recomputed_activations_change_nothing(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Dropout and running statistics included."""
    config = plain_config(spoken_digits(8), model=dataclasses.replace(TINY, dropout=0.2))
    kept = trained_weights(config, tmp_path / "kept")
    again = trained_weights(dataclasses.replace(config, compute=ComputeConfig(recompute=True)), tmp_path / "again")
    assert torch.equal(kept, again)


def test_recomputed_activations_are_not_kept(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(plain_config(spoken_digits(4)), tmp_path / "run")
    batch = train_batch(trainer)

    def kept(recompute: bool) -> int:
        config = plain_config(Path("-"), compute=ComputeConfig(recompute=recompute))
        objective = Objective(copy.deepcopy(trainer.model).train(), config)
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            objective(batch, (1, 1, 0))
        return sum(sizes.values())

    assert kept(True) < 0.7 * kept(False)
