"""Training: it learns, survives being killed at any moment, and reports what it leaves out."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from conftest import TINY

from ds2.bundle import Bundle
from ds2.config import load_config
from ds2.data.augment import AugmentConfig
from ds2.data.sampling import SamplingConfig
from ds2.errors import InputError
from ds2.model.frontend import FrontendConfig
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.trainer import Trainer

Manifests = Callable[[int], Path]


def configuration(manifest: Path, **changes: object) -> TrainConfig:
    """Small and quick, with dropout and augmentation, so that all random states matter."""
    config = TrainConfig(
        DataConfig((manifest,), manifest, workers=0),
        model=dataclasses.replace(TINY, dropout=0.1),
        augment=AugmentConfig(noise_share=0.5),
        optimizer=OptimizerConfig("adamw", 5e-3),
        epochs=2,
        batch_size=4,
        checkpoint_every=1,
    )
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    model: dict[str, torch.Tensor] = load_checkpoint(folder / "checkpoint.pt")["replicas"][0]["model"]
    return model


def assert_same_weights(one: Path, other: Path) -> None:
    expected, found = weights(one), weights(other)
    assert expected.keys() == found.keys()
    for name in expected:
        assert torch.equal(expected[name], found[name]), name


def test_learns_and_leaves_bundle_record_and_picture(spoken_digits: Manifests, tmp_path: Path) -> None:
    quiet = AugmentConfig((1.0,), noise_share=0, frequency_masks=0, time_masks=0)
    config = configuration(spoken_digits(12), model=TINY, augment=quiet, epochs=25)
    best = Trainer(config, tmp_path / "run").run()
    history = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [epoch["epoch"] for epoch in history] == list(range(1, 26))
    assert history[-1]["dev_loss"] < history[0]["dev_loss"] / 4
    record = Bundle.load(best).metadata["training"]
    assert record["wer"] == min(epoch["wer"] for epoch in history)
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("optimizer", [OptimizerConfig("adamw", 5e-3), OptimizerConfig("sgd", 1e-4)])
def test_stopped_inside_an_epoch_resumes_to_the_same_weights(
    spoken_digits: Manifests, tmp_path: Path, optimizer: OptimizerConfig
) -> None:
    config = configuration(spoken_digits(10), optimizer=optimizer)
    Trainer(config, tmp_path / "whole").run()

    class Stopped(Exception):
        pass

    for batches in (1, 2, 1):
        trainer = Trainer(config, tmp_path / "pieces")
        train, left = trainer._train_minibatch, iter(range(batches))

        def stop_after(minibatch: object, train: Callable = train, left: object = left) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]
                raise Stopped
            train(minibatch)

        trainer._train_minibatch = stop_after  # type: ignore[method-assign]
        with pytest.raises(Stopped):
            trainer.run()
    Trainer(config, tmp_path / "pieces").run()
    assert_same_weights(tmp_path / "whole", tmp_path / "pieces")


Command = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def command(spoken_digits: Manifests, tmp_path: Path) -> Command:
    """command(folder): `ds2 train` of three epochs into a folder, with a worker, in a process group of its own.

    What it has to say on standard error is in folder.log.
    """
    manifest = spoken_digits(20)
    toml = tmp_path / "train.toml"
    toml.write_text(
        f'epochs = 3\nbatch_size = 4\ncheckpoint_every = 2\n[data]\ntrain = ["{manifest}"]\ndev = "{manifest}"\n'
        "workers = 1\n[model]\nhidden = 16\nrecurrent_layers = 1\ndropout = 0.1\n"
        "convolutions = [{channels = 4, kernel = [11, 5], stride = [2, 2]}]\n[model.frontend]\nsample_rate = 8000\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start(folder: str) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "-m", "ds2.cli", "train", str(toml), "--output", str(tmp_path / folder)]
        with (tmp_path / f"{folder}.log").open("w") as log:
            return subprocess.Popen(
                arguments, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    return start


def wait_for_checkpoint(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    while not (folder / "checkpoint.pt").exists():
        assert process.poll() is None
        time.sleep(0.005)


def test_kill_9_and_the_same_command_end_in_the_same_weights(command: Command, tmp_path: Path) -> None:
    assert command("whole").wait(120) == 0
    killed = command("killed")
    wait_for_checkpoint(tmp_path / "killed", killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    progress = load_checkpoint(tmp_path / "killed" / "checkpoint.pt")["state"]
    assert progress["epoch"] < 3
    assert command("killed").wait(120) == 0
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(command: Command, tmp_path: Path) -> None:
    """SIGINT to trainer and worker, as a terminal sends it, behind the first of the checkpoints every 2 minibatches."""
    stopped = command("stopped")
    wait_for_checkpoint(tmp_path / "stopped", stopped)
    os.killpg(stopped.pid, signal.SIGINT)
    assert stopped.wait(120) == 130
    errors = (tmp_path / "stopped.log").read_text()
    assert re.fullmatch(r"ds2: stopped in epoch \d; the same command goes on from here\n", errors)
    assert load_checkpoint(tmp_path / "stopped" / "checkpoint.pt")["state"]["epoch"] < 3


def test_a_second_ctrl_c_ends_training_at_once(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(configuration(spoken_digits(4)), tmp_path / "run")
    before = signal.getsignal(signal.SIGINT)

    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        assert trainer.signals.heard == signal.SIGINT
        signal.raise_signal(signal.SIGINT)

    trainer._train_minibatch = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    assert signal.getsignal(signal.SIGINT) == before


def test_workers_do_not_change_the_result(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = configuration(spoken_digits(8), epochs=1)
    Trainer(config, tmp_path / "none").run()
    data = dataclasses.replace(config.data, workers=2)
    Trainer(dataclasses.replace(config, data=data), tmp_path / "two").run()
    assert_same_weights(tmp_path / "none", tmp_path / "two")


def test_unreadable_and_impossible_utterances_are_listed_and_training_goes_on(
    spoken_digits: Manifests, tmp_path: Path
) -> None:
    manifest = spoken_digits(6)
    lines = manifest.read_text().splitlines()
    lines[1] = json.dumps({"audio_filepath": "gone.wav", "duration": 0.5, "text": "zero"})
    lines[2] = json.dumps({**json.loads(lines[2]), "text": "zero " * 40})
    manifest.write_text("\n".join(lines) + "\n")
    Trainer(configuration(manifest, epochs=1), tmp_path / "run").run()
    skipped = (tmp_path / "run" / "skipped.txt").read_text()
    assert "gone.wav" in skipped
    assert f"{manifest}:3: 200 characters" in skipped
    assert weights(tmp_path / "run")["output.weight"].isfinite().all()


def test_an_epoch_of_which_nothing_can_be_trained_on_ends_the_run(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Transcripts too long for their frames, and a file that is gone."""
    manifest = spoken_digits(4)
    rows = [{**json.loads(line), "text": "zero " * 40} for line in manifest.read_text().splitlines()]
    rows[1]["audio_filepath"] = "gone.wav"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"epoch 1: it has no utterance that can be trained on; .*gone\.wav"):
        Trainer(configuration(manifest), tmp_path / "run").run()
    with pytest.raises(InputError, match=r"epoch 1: .*sampling\.epoch_hours"):
        Trainer(configuration(manifest, sampling=SamplingConfig(epoch_hours=1e-6)), tmp_path / "short").run()


@pytest.mark.parametrize("power", ["utterance", "adaptive"])
def test_statistics_leave_out_batches_that_cannot_be_read(
    spoken_digits: Manifests, tmp_path: Path, power: Literal["utterance", "adaptive"]
) -> None:
    """The shortest utterances come together, in a batch of their own."""
    manifest = spoken_digits(6)
    rows = [{"audio_filepath": f"gone{number}.wav", "duration": 0.01, "text": "zero"} for number in range(4)]
    gone = "".join(json.dumps(row) + "\n" for row in rows)
    model = dataclasses.replace(TINY, frontend=FrontendConfig(8000, power=power))
    config = configuration(manifest, model=model)
    manifest.write_text(gone + manifest.read_text())
    assert Trainer(config, tmp_path / "some").model.frontend.mean.isfinite().all()
    manifest.write_text(gone)
    with pytest.raises(InputError, match="none of the utterances tried can be read"):
        Trainer(config, tmp_path / "none")


def test_checkpoint_of_another_configuration_is_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = configuration(spoken_digits(4), epochs=1)
    Trainer(config, tmp_path / "run").run()
    with pytest.raises(InputError, match="another seed"):
        Trainer(dataclasses.replace(config, seed=9), tmp_path / "run")


def test_damaged_checkpoint_is_one_line(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = configuration(spoken_digits(4), epochs=1)
    Trainer(config, tmp_path / "run").run()
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"checkpoint\.pt: damaged"):
        Trainer(config, tmp_path / "run")


def test_divergence_ends_in_one_line(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(configuration(spoken_digits(8), epochs=20, batch_size=1), tmp_path / "run")
    with torch.no_grad():
        trainer.model.output.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="diverged"):
        trainer.run()


def test_unknown_dev_characters_are_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(4)
    dev = tmp_path / "dev.jsonl"
    dev.write_text(json.dumps({"audio_filepath": "x.wav", "duration": 1.0, "text": "zero ÿ"}) + "\n")
    with pytest.raises(InputError, match=r"dev\.jsonl:1.*ÿ"):
        Trainer(configuration(manifest, data=DataConfig((manifest,), dev, 0)), tmp_path / "run")


@pytest.mark.parametrize(
    "setting",
    [
        "epochs=0",
        "batch_size=-1",
        "checkpoint_every=0",
        "patience=-1",
        "seed=-1",
        "checkpoint_minutes=-0.5",
        "data.workers=-1",
        "data.fraction=0.0",
        "data.fraction=1.5",
        "data.train=[]",
        "model.dropout=2.0",
        "model.hidden=0",
        "model.frontend.sample_rate=0",
        "model.frontend.window=0.0001",
        "optimizer.learning_rate=-1.0",
        "optimizer.learning_rate=nan",
        "optimizer.momentum=0.0",
        "optimizer.annealing=0.0",
        "optimizer.clip_norm=0.0",
        "optimizer.warmup=1.5",
        "optimizer.average_decay=1.0",
        "parallel.group=0",
        "parallel.staleness=-1",
        "start.freeze_epochs=-1",
    ],
)
def test_numbers_out_of_range_are_refused_by_their_key(tmp_path: Path, setting: str) -> None:
    (tmp_path / "train.toml").write_text('[data]\ntrain = ["a"]\ndev = "b"\n')
    section, _, key = setting.partition("=")[0].rpartition(".")
    with pytest.raises(InputError, match=rf"train\.toml: {section}.*{key}"):
        load_config(TrainConfig, tmp_path / "train.toml", [setting])


def test_starts_from_a_bundle(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Weights, alphabet and feature statistics come from the bundle; words of the new corpus close the vocabulary."""
    config = configuration(spoken_digits(8), epochs=1)
    start = Trainer(config, tmp_path / "start").run()
    data = dataclasses.replace(config.data, closed_vocabulary=True)
    again = Trainer(dataclasses.replace(config, start_from=start, data=data), tmp_path / "again")
    bundle = Bundle.load(start)
    for name, tensor in again.model.state_dict().items():
        assert torch.equal(tensor, bundle.weights[name])
    assert list(again.corpus.tokenizer.tokens) == bundle.metadata["tokens"]
    assert "vocabulary" in Bundle.load(again.run()).metadata


def test_a_start_keeps_its_feature_statistics_whatever_else_changes(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = configuration(spoken_digits(8), epochs=1)
    start = Trainer(config, tmp_path / "start").run()
    model = dataclasses.replace(config.model, dropout=0.3)
    again = Trainer(configuration(spoken_digits(4), model=model, start_from=start), tmp_path / "again")
    assert torch.equal(again.model.frontend.mean, Bundle.load(start).weights["frontend.mean"])


def test_a_start_of_another_shape_or_alphabet_is_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    config = configuration(manifest, epochs=1)
    start = Trainer(config, tmp_path / "start").run()
    model = dataclasses.replace(config.model, recurrent_layers=config.model.recurrent_layers + 1)
    larger = dataclasses.replace(config, start_from=start, model=model)
    with pytest.raises(InputError, match="another shape"):
        Trainer(larger, tmp_path / "larger")
    row = json.loads(manifest.read_text().splitlines()[0])
    (manifest.parent / "strange.jsonl").write_text(json.dumps({**row, "text": "žluťoučký"}) + "\n")
    data = dataclasses.replace(config.data, train=(manifest.parent / "strange.jsonl",))
    with pytest.raises(InputError, match="alphabet"):
        Trainer(dataclasses.replace(config, start_from=start, data=data), tmp_path / "strange")


@pytest.mark.parametrize(
    "change", [{"random_walk": 2}, {"cell": "bn-lstm"}, {"bidirectional": False, "lookahead": 2}], ids=str
)
def test_every_kind_of_model_learns(spoken_digits: Manifests, tmp_path: Path, change: dict) -> None:
    config = configuration(spoken_digits(8), epochs=8, augment=AugmentConfig(noise_share=0.0))
    trainer = Trainer(dataclasses.replace(config, model=dataclasses.replace(config.model, **change)), tmp_path / "run")
    trainer.run()
    losses = [epoch["loss"] for epoch in trainer.state.history]
    assert losses[-1] < losses[0]


def test_bigrams_and_adaptive_power_reach_the_bundle(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = configuration(spoken_digits(8), epochs=1)
    model = dataclasses.replace(config.model, frontend=FrontendConfig(8000, power="adaptive"))
    data = dataclasses.replace(config.data, units="bigrams")
    bundle = Bundle.load(Trainer(dataclasses.replace(config, model=model, data=data), tmp_path / "run").run())
    assert any(len(token) == 2 for token in bundle.metadata["tokens"][1:])
    assert 0 < float(bundle.weights["frontend.prior_power"]) < 1
    assert float(bundle.weights["frontend.prior_power"]) != pytest.approx(1e-2)


def test_a_fraction_of_the_training_set_keeps_its_whole_alphabet(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(12)
    data = DataConfig((manifest,), manifest, workers=0, fraction=0.2)
    trainer = Trainer(configuration(manifest, data=data), tmp_path / "run")
    whole = Trainer(configuration(manifest), tmp_path / "whole")
    assert 1 <= len(trainer.corpus.train) < 5
    assert trainer.corpus.tokenizer.tokens == whole.corpus.tokenizer.tokens
