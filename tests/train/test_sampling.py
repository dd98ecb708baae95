"""Training on shards, with weights and minibatches by audio: it learns, resumes, and hears what was asked for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TINY

from ds2.data.augment import AugmentConfig
from ds2.data.epoch_plan import SamplingConfig
from ds2.data.manifest import read_manifest
from ds2.data.shards import ShardConfig, write_shards
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.trainer import Trainer


def configuration(manifests: tuple[Path, ...], sampling: SamplingConfig, epochs: int = 3) -> TrainConfig:
    data = DataConfig(manifests, manifests[0], workers=0)
    augment, optimizer = AugmentConfig(noise_share=0.5), OptimizerConfig("adamw", 5e-3)
    return TrainConfig(
        data, TINY, augment, optimizer, sampling=sampling, epochs=epochs, batch_size=4, checkpoint_minutes=1e-6
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    model: dict[str, torch.Tensor] = load_checkpoint(folder / "checkpoint.pt")["replicas"][0]["model"]
    return model


def test_sampled_training_on_shards_resumes_to_the_same_weights(
    spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(read_manifest(spoken_digits(12)), tmp_path / "shards", ShardConfig(hours=1 / 3600))
    manifests = (spoken_digits(3), tmp_path / "shards" / "manifest.jsonl")
    sampling = SamplingConfig(weights=(1.0, 1.0), epoch_hours=6 / 3600, batch_seconds=2.0, open_shards=2)
    config = configuration(manifests, sampling)
    Trainer(config, tmp_path / "whole").run()
    history = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert history[-1]["loss"] < history[0]["loss"]

    class Killed(Exception):
        pass

    train, calls = Trainer._train_minibatch, iter(range(100))

    def interrupted(trainer: Trainer, minibatch: object) -> None:
        if next(calls) == 5:
            raise Killed
        train(trainer, minibatch)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_minibatch", interrupted)
        with pytest.raises(Killed):
            Trainer(config, tmp_path / "parts").run()
    Trainer(config, tmp_path / "parts").run()
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_weights_must_be_as_many_as_manifests(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 values for 1 manifests"):
        configuration((tmp_path / "m.jsonl",), SamplingConfig(weights=(1.0, 2.0)))
