"""Several real processes, by gloo: the same weights as one, whatever happens to them."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle
from ds2.config import load_config
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.trainer import Trainer

UTTERANCES = 21  # in minibatches of 4: the last holds one, of which the second rank has nothing


def finished(process: "subprocess.Popen[str]") -> None:
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == 0, errors


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def alone(toml: Path, folder: Path) -> dict[str, torch.Tensor]:
    Trainer(load_config(TrainConfig, toml), folder).run()
    return weights(folder)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    saved: dict[str, torch.Tensor] = load_checkpoint(folder / "checkpoint.pt")["replicas"][0]["model"]
    return saved


def history(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_two_processes_end_in_the_weights_of_one(spoken_digits, launch, tmp_path: Path) -> None:
    """18 updates of joint minibatches; statistics of batch normalisation and an unreadable utterance included."""
    manifest = spoken_digits(UTTERANCES)
    lines = manifest.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "audio_filepath": "gone.wav"})
    manifest.write_text("\n".join(lines) + "\n")
    finished(launch(2, manifest, tmp_path / "two"))
    expected = alone(tmp_path / "train.toml", tmp_path / "one")
    assert difference(expected, weights(tmp_path / "two")) < 1e-6
    untrained = Trainer(load_config(TrainConfig, tmp_path / "train.toml"), tmp_path / "new").model.state_dict()
    assert difference(expected, untrained) > 1e-3
    records = [history(tmp_path / run) for run in ("one", "two")]
    for one, two in zip(*records, strict=True):
        assert one["skipped"] == two["skipped"] == 1
        assert one["wer"] == two["wer"]
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
    assert "gone.wav" in (tmp_path / "two" / "skipped.txt").read_text()


def test_kill_9_of_a_rank_and_torchrun_goes_on_to_the_same_weights(spoken_digits, launch, tmp_path: Path) -> None:
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
    assert difference(weights(tmp_path / "whole"), weights(tmp_path / "killed")) == 0


def test_sigterm_leaves_a_checkpoint_that_another_number_of_ranks_goes_on_from(
    spoken_digits, launch, tmp_path: Path
) -> None:
    manifest = spoken_digits(UTTERANCES)
    stopped = launch(2, manifest, tmp_path / "stopped", "checkpoint_minutes=1e-6")
    wait_for(tmp_path / "stopped" / "checkpoint.pt", stopped)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=120)
    assert stopped.returncode != 0
    state = load_checkpoint(tmp_path / "stopped" / "checkpoint.pt")["state"]
    assert state["epoch"] < 3
    whole = alone(tmp_path / "train.toml", tmp_path / "one")
    assert difference(whole, alone(tmp_path / "train.toml", tmp_path / "stopped")) < 1e-6


@pytest.mark.parametrize("strategy", ["mixed", "asynchronous"])
def test_other_strategies_learn_stop_and_go_on(spoken_digits, launch, tmp_path: Path, strategy: str) -> None:
    manifest = spoken_digits(UTTERANCES)
    settings = (
        f"parallel.strategy={strategy}",
        "parallel.average_every=3",
        "epochs=12",
        "optimizer.learning_rate=1e-3",
    )
    run = tmp_path / "run"
    stopped = launch(2, manifest, run, *settings)
    wait_for(run / "checkpoint.pt", stopped)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=120)
    assert len(load_checkpoint(run / "checkpoint.pt")["replicas"]) == (2 if strategy == "mixed" else 1)
    finished(launch(2, manifest, run, *settings))
    losses = [epoch["dev_loss"] for epoch in history(run)]
    assert len(losses) == 12
    assert losses[-1] < 0.8 * losses[0]
    assert all(tensor.isfinite().all() for tensor in Bundle.load(run / "best.safetensors").weights.values())


def test_a_bn_lstm_has_no_synchronised_statistics(spoken_digits, launch, tmp_path: Path) -> None:
    refused = launch(2, spoken_digits(4), tmp_path / "run", "model.cell=bn-lstm", "model.fully_connected=0")
    errors = refused.communicate(timeout=120)[1]
    assert refused.returncode != 0
    assert "set parallel.synchronize_batch_norm = false" in errors
