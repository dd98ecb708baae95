"""Small trainings for the tests: configurations, weights, and processes to wait for."""

import dataclasses
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
from conftest import TINY

from ds2.audio.augment import AugmentConfig
from ds2.bundle import Bundle
from ds2.data.dataset import Batch
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.trainer import Trainer
from ds2.utils.config import load_config

Launch = Callable[..., "subprocess.Popen[str]"]
Manifests = Callable[[int], Path]
PLAIN = AugmentConfig((1.0,), noise_probability=0.0, gain=(0.0, 0.0), frequency_masks=0, time_masks=0)


def plain_config(manifest: Path, **changes: object) -> TrainConfig:
    """SGD without augmentation: updates are in proportion to the gradients."""
    config = TrainConfig(
        DataConfig((manifest,), manifest, workers=0),
        model=TINY,
        augment=PLAIN,
        optimizer=OptimizerConfig("sgd", 1e-3, 0.9),
        epochs=2,
        batch_size=4,
        observe=0,
    )
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def augmented_config(manifest: Path, **changes: object) -> TrainConfig:
    """Small and quick, with dropout and augmentation, so that all random states matter."""
    config = TrainConfig(
        DataConfig((manifest,), manifest, workers=0),
        model=dataclasses.replace(TINY, dropout=0.1),
        augment=AugmentConfig(noise_probability=0.5),
        optimizer=OptimizerConfig("adamw", 5e-3),
        epochs=2,
        batch_size=4,
        checkpoint_minutes=1e-6,
    )
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def model_weights(trainer: Trainer) -> torch.Tensor:
    """All parameters and buffers, flattened."""
    return torch.cat([tensor.flatten() for tensor in trainer.model.state_dict().values()])


def trained_weights(config: TrainConfig, folder: Path) -> torch.Tensor:
    """The weights at the end of a run."""
    trainer = Trainer(config, folder)
    trainer.run()
    return model_weights(trainer)


def train_batch(trainer: Trainer) -> Batch:
    """The first minibatch of the second epoch."""
    trainer.data.sampler.begin(1)
    return next(iter(trainer.data.train_loader()))


def checkpoint_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of the model in the folder's checkpoint."""
    model: dict[str, torch.Tensor] = load_checkpoint(folder / "checkpoint.pt")["replicas"][0]["model"]
    return model


def assert_same_weights(one: Path, other: Path) -> None:
    expected, found = checkpoint_weights(one), checkpoint_weights(other)
    assert expected.keys() == found.keys()
    for name in expected:
        assert torch.equal(expected[name], found[name]), name


def history(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def finished(process: "subprocess.Popen[str]") -> None:
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 0, errors


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def alone(toml: Path, folder: Path) -> dict[str, torch.Tensor]:
    Trainer(load_config(TrainConfig, toml), folder).run()
    return checkpoint_weights(folder)


def learns_stops_and_continues(
    manifest: Path, launch: Launch, folder: Path, strategy: str, replicas: int, *more: str
) -> None:
    """Two ranks: SIGTERM after the first checkpoint, then on to six epochs."""
    settings = (
        f"parallel.strategy={strategy}",
        "parallel.average_every=3",
        "epochs=6",
        "optimizer.learning_rate=2e-3",
        *more,
    )
    run = folder / "run"
    stopped = launch(2, manifest, run, *settings)
    wait_for(run / "checkpoint.pt", stopped)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=120)
    assert len(load_checkpoint(run / "checkpoint.pt")["replicas"]) == replicas
    finished(launch(2, manifest, run, *settings))
    losses = [epoch["dev_loss"] for epoch in history(run)]
    assert len(losses) == 6
    assert losses[-1] < 0.9 * losses[0]
    assert all(tensor.isfinite().all() for tensor in Bundle.load(run / "best.safetensors").weights.values())
