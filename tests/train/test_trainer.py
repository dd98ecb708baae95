"""Training: it learns, survives being killed at any moment, and lists what it skips."""

import dataclasses
import json
import logging
import math
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.training import (
    Manifests,
    assert_same_weights,
    augmented_config,
    checkpoint_weights,
    plain_config,
    trained_weights,
    wait_for,
)

from ds2.audio.augment import AugmentConfig
from ds2.bundle import Bundle
from ds2.data.corpus_sampling import SamplingConfig
from ds2.data.manifest import read_manifest
from ds2.data.shards import ShardConfig, write_shards
from ds2.model.config import FrontendConfig
from ds2.train import trainer as trainer_module
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import ComputeConfig, DataConfig, OptimizerConfig, TrainConfig
from ds2.train.trainer import Trainer
from ds2.utils.config import load_config
from ds2.utils.errors import InputError


def test_learns_and_writes_bundle_metrics_and_curves(spoken_digits: Manifests, tmp_path: Path) -> None:
    quiet = AugmentConfig((1.0,), noise_probability=0, frequency_masks=0, time_masks=0)
    config = augmented_config(spoken_digits(12), model=TINY, augment=quiet, epochs=25)
    best = Trainer(config, tmp_path / "run").run()
    history = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [epoch["epoch"] for epoch in history] == list(range(1, 26))
    assert history[-1]["dev_loss"] < history[0]["dev_loss"] / 4
    record = Bundle.load(best).training
    assert record["wer"] == min(epoch["wer"] for epoch in history)
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "optimizer", [OptimizerConfig("adamw", 5e-3), OptimizerConfig("muon", 5e-3), OptimizerConfig("sgd", 1e-4)]
)
def test_stopped_inside_an_epoch_resumes_to_the_same_weights(
    spoken_digits: Manifests, tmp_path: Path, optimizer: OptimizerConfig
) -> None:
    config = augmented_config(spoken_digits(10), optimizer=optimizer)
    Trainer(config, tmp_path / "whole").run()

    class Stopped(Exception):
        pass

    for batches in (1, 2, 1):
        trainer = Trainer(config, tmp_path / "stopped")
        train, left = trainer._train_minibatch, iter(range(batches))

        def stop_after(minibatch: object, train: Callable = train, left: object = left) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]
                raise Stopped
            train(minibatch)

        trainer._train_minibatch = stop_after  # type: ignore[method-assign]
        with pytest.raises(Stopped):
            trainer.run()
    Trainer(config, tmp_path / "stopped").run()
    assert_same_weights(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.long
def test_kill_9_and_the_same_command_end_in_the_same_weights(train_command, tmp_path: Path) -> None:
    Trainer(load_config(TrainConfig, tmp_path / "train.toml"), tmp_path / "whole").run()
    killed = train_command("killed")
    wait_for(tmp_path / "killed" / "checkpoint.pt", killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    progress = load_checkpoint(tmp_path / "killed" / "checkpoint.pt")["state"]
    assert progress["epoch"] < 3
    assert train_command("killed").wait(120) == 0
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")


def test_sampled_training_on_shards_resumes_to_the_same_weights(
    spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(read_manifest(spoken_digits(12)), tmp_path / "shards", ShardConfig(hours=1 / 3600))
    manifests = (spoken_digits(3), tmp_path / "shards" / "manifest.jsonl")
    sampling = SamplingConfig(weights=(1.0, 1.0), epoch_hours=6 / 3600, batch_seconds=2.0, open_shards=2)
    config = augmented_config(
        manifests[0], data=DataConfig(manifests, manifests[0], workers=0), sampling=sampling, epochs=3
    )
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
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


def test_workers_do_not_change_the_result(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(8), epochs=1)
    Trainer(config, tmp_path / "none").run()
    data = dataclasses.replace(config.data, workers=2)
    Trainer(dataclasses.replace(config, data=data), tmp_path / "two").run()
    assert_same_weights(tmp_path / "none", tmp_path / "two")


def test_microbatches_add_up_to_the_minibatch(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Without batch normalisation, which takes statistics of each, three microbatches give the gradient of one."""
    config = plain_config(spoken_digits(9), model=dataclasses.replace(TINY, batch_norm=False))
    whole = trained_weights(config, tmp_path / "whole")
    divided = trained_weights(dataclasses.replace(config, accumulate=3), tmp_path / "divided")
    torch.testing.assert_close(divided, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_learns(spoken_digits: Manifests, tmp_path: Path, precision: str) -> None:
    optimizer = OptimizerConfig("adamw", 5e-3)
    compute = ComputeConfig(precision=precision)  # type: ignore[arg-type]
    trainer = Trainer(plain_config(spoken_digits(8), epochs=8, optimizer=optimizer, compute=compute), tmp_path / "run")
    trainer.run()
    losses = [epoch["loss"] for epoch in trainer.state.history]
    assert losses[-1] < 0.8 * losses[0]
    assert all(tensor.dtype == torch.float32 for tensor in trainer.model.state_dict().values())


def test_patience_ends_a_run_without_progress(spoken_digits: Manifests, tmp_path: Path) -> None:
    still = OptimizerConfig("sgd", 1e-12, 0.1)
    model = dataclasses.replace(TINY, batch_norm=False)
    config = plain_config(spoken_digits(4), optimizer=still, model=model, epochs=50, patience=3)
    trainer = Trainer(config, tmp_path / "run")
    trainer.run()
    assert trainer.state.epoch - trainer.state.best_epoch == 3
    assert trainer.state.epoch < 50
    Trainer(config, tmp_path / "run").run()  # and it stays ended
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == trainer.state.epoch


def test_unreadable_and_impossible_utterances_are_listed_and_skipped(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(6)
    lines = manifest.read_text().splitlines()
    lines[1] = json.dumps({"audio_filepath": "gone.wav", "duration": 0.5, "text": "zero"})
    lines[2] = json.dumps({**json.loads(lines[2]), "text": "zero " * 40})
    manifest.write_text("\n".join(lines) + "\n")
    Trainer(augmented_config(manifest, epochs=1), tmp_path / "run").run()
    skipped = (tmp_path / "run" / "skipped.txt").read_text()
    assert "gone.wav" in skipped
    assert f"{manifest}:3: 200 characters" in skipped
    assert checkpoint_weights(tmp_path / "run")["output.weight"].isfinite().all()


def test_an_epoch_without_a_usable_utterance_ends_the_run(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Transcripts too long for their frames, and a file that is gone."""
    manifest = spoken_digits(4)
    rows = [{**json.loads(line), "text": "zero " * 40} for line in manifest.read_text().splitlines()]
    rows[1]["audio_filepath"] = "gone.wav"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"epoch 1: no utterance can be trained on; .*gone\.wav"):
        Trainer(augmented_config(manifest), tmp_path / "run").run()
    with pytest.raises(InputError, match=r"epoch 1: .*sampling\.epoch_hours"):
        Trainer(augmented_config(manifest, sampling=SamplingConfig(epoch_hours=1e-6)), tmp_path / "short").run()


@pytest.mark.parametrize(
    "change", [{"random_walk": 2}, {"cell": "bn-lstm"}, {"bidirectional": False, "lookahead": 2}], ids=str
)
def test_every_kind_of_model_learns(spoken_digits: Manifests, tmp_path: Path, change: dict) -> None:
    config = augmented_config(spoken_digits(8), epochs=8, augment=AugmentConfig(noise_probability=0.0))
    trainer = Trainer(dataclasses.replace(config, model=dataclasses.replace(config.model, **change)), tmp_path / "run")
    trainer.run()
    losses = [epoch["loss"] for epoch in trainer.state.history]
    assert losses[-1] < losses[0]


def test_a_bn_lstm_has_statistics_of_each_frame_of_the_longest_utterance(
    spoken_digits: Manifests, tmp_path: Path
) -> None:
    manifest = spoken_digits(8)
    config = augmented_config(manifest, epochs=1)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, cell="bn-lstm"))
    longest = max(utterance.duration for utterance in read_manifest(manifest))
    means = Bundle.load(Trainer(config, tmp_path / "run").run()).weights["recurrent.0.forwards.cell_norm.means"]
    assert len(means) == math.ceil(longest / config.model.frame_seconds)


def test_bigrams_and_adaptive_power_reach_the_bundle(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(8), epochs=1)
    model = dataclasses.replace(config.model, frontend=FrontendConfig(8000, power="adaptive"))
    data = dataclasses.replace(config.data, units="bigrams")
    bundle = Bundle.load(Trainer(dataclasses.replace(config, model=model, data=data), tmp_path / "run").run())
    assert any(len(token) == 2 for token in bundle.tokens[1:])
    assert 0 < float(bundle.weights["frontend.prior_power"]) < 1
    assert float(bundle.weights["frontend.prior_power"]) != pytest.approx(1e-2)


def test_an_epoch_and_its_progress_are_logged(
    spoken_digits: Manifests, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no terminal: a line after LINE_SECONDS, here after each minibatch, and one for each epoch."""
    monkeypatch.setattr(trainer_module, "LINE_SECONDS", 1e-9)
    caplog.set_level(logging.INFO, "ds2")
    Trainer(augmented_config(spoken_digits(8), epochs=1), tmp_path / "run").run()
    first, second, epoch = caplog.messages
    assert re.fullmatch(r"epoch 1/1: 4 of 8 utterances, [\d.]+ utterances/s, \d:\d\d:\d\d left, loss [\d.]+", first)
    assert second.startswith("epoch 1/1: 8 of 8 utterances, ")
    assert epoch.startswith("epoch 1: loss ")
