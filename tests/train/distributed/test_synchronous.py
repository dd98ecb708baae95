"""Synchronous ranks, in real processes by gloo: the same weights as one, even after a kill."""

import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.training import alone, checkpoint_weights, difference, finished, history, wait_for

from ds2.model.acoustic import AcousticModel
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.distributed.synchronous import synchronize_statistics
from ds2.train.trainer import Trainer
from ds2.utils.config import load_config
from ds2.utils.errors import InputError

UTTERANCES = 21  # in minibatches of 4: the last holds one, so that the second rank has none


@pytest.mark.long
def test_two_processes_end_in_the_weights_of_one(spoken_digits, launch, tmp_path: Path) -> None:
    """18 updates of joint minibatches; statistics of batch normalisation and an unreadable utterance included."""
    manifest = spoken_digits(UTTERANCES)
    lines = manifest.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "audio_filepath": "gone.wav"})
    manifest.write_text("\n".join(lines) + "\n")
    finished(launch(2, manifest, tmp_path / "two"))
    expected = alone(tmp_path / "train.toml", tmp_path / "one")
    assert difference(expected, checkpoint_weights(tmp_path / "two")) < 1e-6
    untrained = Trainer(load_config(TrainConfig, tmp_path / "train.toml"), tmp_path / "new").model.state_dict()
    assert difference(expected, untrained) > 1e-3
    records = [history(tmp_path / run) for run in ("one", "two")]
    for one, two in zip(*records, strict=True):
        assert one["skipped"] == two["skipped"] == 1
        assert one["wer"] == two["wer"]
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
        assert one["megabytes_per_minibatch"] == 0
        assert two["megabytes_per_minibatch"] > 2 * gradient_megabytes(expected)
        for kind in ("waiting", "communication"):
            seconds = two[f"{kind}_seconds_per_minibatch"]
            assert 0 < seconds < two["seconds"] / 6  # minibatches
    assert "gone.wav" in (tmp_path / "two" / "skipped.txt").read_text()


def gradient_megabytes(weights: dict[str, torch.Tensor]) -> float:
    """What a rank sends of its gradients, in float32; the rest is of batch normalisation."""
    trained = [tensor for name, tensor in weights.items() if "frontend" not in name and "running" not in name]
    return sum(4 * tensor.numel() for tensor in trained) / 1e6


@pytest.mark.long
def test_kill_9_of_a_rank_and_a_restart_end_in_the_same_weights(spoken_digits, launch, tmp_path: Path) -> None:
    """With dropout, whose random state is each rank's own."""
    manifest = spoken_digits(UTTERANCES)
    finished(launch(2, manifest, tmp_path / "whole", "model.dropout=0.2"))
    killed = launch(2, manifest, tmp_path / "killed", "model.dropout=0.2", "epochs=3", restarts=1)
    wait_for(tmp_path / "killed" / "checkpoint.pt", killed)
    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    errors = killed.communicate(timeout=120)[1]
    assert killed.returncode == 0, errors
    assert "SIGKILL" in errors or "-9" in errors
    assert difference(checkpoint_weights(tmp_path / "whole"), checkpoint_weights(tmp_path / "killed")) == 0


@pytest.mark.long
def test_another_number_of_ranks_continues_after_sigterm(spoken_digits, launch, tmp_path: Path) -> None:
    manifest = spoken_digits(UTTERANCES)
    stopped = launch(2, manifest, tmp_path / "stopped")
    wait_for(tmp_path / "stopped" / "checkpoint.pt", stopped)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=120)
    assert stopped.returncode != 0
    state = load_checkpoint(tmp_path / "stopped" / "checkpoint.pt")["state"]
    assert state["epoch"] < 3
    whole = alone(tmp_path / "train.toml", tmp_path / "one")
    assert difference(whole, alone(tmp_path / "train.toml", tmp_path / "stopped")) < 1e-6


@pytest.mark.long
def test_compression_pieces_and_release_of_frozen_parts_work_together(spoken_digits, launch, tmp_path: Path) -> None:
    """With gradients in 16 bits; DDP is made anew for the parts released in the second epoch."""
    manifest = spoken_digits(12)
    freeze = ('start.freeze=["convolutions"]', "start.freeze_epochs=1", "accumulate=2", "epochs=2")
    finished(launch(2, manifest, tmp_path / "run", *freeze, "parallel.compression=float16"))
    start = Trainer(load_config(TrainConfig, tmp_path / "train.toml"), tmp_path / "new").model.state_dict()
    found = checkpoint_weights(tmp_path / "run")
    moved = {name for name in found if not torch.equal(found[name], start[name]) and "frontend" not in name}
    assert "convolutions.0.kernel.weight" in moved
    assert "output.weight" in moved
    for tensor in found.values():
        assert tensor.isfinite().all()


def test_a_bn_lstm_has_no_synchronised_statistics() -> None:
    model = AcousticModel(dataclasses.replace(TINY, cell="bn-lstm"), 5)
    with pytest.raises(InputError, match=r"parallel\.synchronize_batch_norm = false"):
        synchronize_statistics(model, None)
