"""Several real processes, by gloo: the same weights as one, whatever happens to them."""

import copy
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from conftest import TINY

from ds2.bundle import Bundle
from ds2.model.acoustic import AcousticModel
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, ParallelConfig, StartConfig, TrainConfig
from ds2.train.distributed.asynchronous import HEAD, TICK, UPDATE, Asynchronous, ParameterServer, message_size
from ds2.train.distributed.ranks import Ranks
from ds2.train.distributed.strategies import synchronize_statistics
from ds2.train.objective import Objective
from ds2.train.trainer import Trainer
from ds2.train.transfer import freeze
from ds2.train.update import Updater
from ds2.utils.config import load_config
from ds2.utils.errors import InputError

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


def test_no_thread_outlives_the_ranks(tmp_path: Path) -> None:
    """One that did would, now and again, abort a process that has done its work."""
    script = tmp_path / "join.py"
    script.write_text(
        "import pathlib, torch\n"
        "from ds2.train.distributed.ranks import join_ranks\n"
        "with join_ranks('cpu') as (ranks, _):\n"
        "    ranks.barrier()\n"
        "    torch.optim.SGD([torch.zeros(1)])\n"
        "print(*(path.read_text().strip() for path in pathlib.Path('/proc/self/task').glob('*/comm')))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "gloo" not in result.stdout
    assert len(result.stdout.splitlines()) == 2


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
        "epochs=6",
        "optimizer.learning_rate=2e-3",
    )
    run = tmp_path / "run"
    stopped = launch(2, manifest, run, *settings)
    wait_for(run / "checkpoint.pt", stopped)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=120)
    assert len(load_checkpoint(run / "checkpoint.pt")["replicas"]) == (2 if strategy == "mixed" else 1)
    finished(launch(2, manifest, run, *settings))
    losses = [epoch["dev_loss"] for epoch in history(run)]
    assert len(losses) == 6
    assert losses[-1] < 0.9 * losses[0]
    assert all(tensor.isfinite().all() for tensor in Bundle.load(run / "best.safetensors").weights.values())


def test_a_bn_lstm_has_no_synchronised_statistics() -> None:
    model = AcousticModel(dataclasses.replace(TINY, cell="bn-lstm"), 5)
    with pytest.raises(InputError, match=r"parallel\.synchronize_batch_norm = false"):
        synchronize_statistics(model, None)


def test_a_rank_that_is_too_far_ahead_waits_for_the_slowest() -> None:
    """Staleness 2, ranks 0 and 1: rank 0's third update beyond rank 1 is answered only when rank 1 has made one."""
    config = TrainConfig(DataConfig((Path("a"),), Path("b")), TINY, optimizer=OptimizerConfig("sgd", 1e-3))
    updater = Updater(AcousticModel(TINY, 5), config, 100)
    twin = Updater(copy.deepcopy(updater.model), config, 100)
    server = ParameterServer(updater, Ranks(0, 2), staleness=2)
    message = torch.cat([torch.tensor([float(UPDATE), 0.0, 0.0]), torch.ones(message_size(updater) - HEAD)])
    for _ in range(2):
        server.answer(0, message)
    ahead = threading.Thread(target=server.answer, args=(0, message))
    ahead.start()
    while server.clocks[0] < 3:
        time.sleep(0.001)
    assert ahead.is_alive()
    server.answer(1, message)
    ahead.join(timeout=60)
    assert not ahead.is_alive()
    assert server.clocks == [3, 1]
    for _ in range(4):
        for parameter in twin.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        twin.update(0)
    for expected, found in zip(twin.model.parameters(), updater.model.parameters(), strict=True):
        assert torch.equal(expected, found)


def test_parts_thaw_in_the_server_too() -> None:
    start = StartConfig(freeze=("convolutions",), freeze_epochs=1)
    config = TrainConfig(DataConfig((Path("a"),), Path("b")), TINY, start=start, optimizer=OptimizerConfig("sgd", 1e-3))
    model = AcousticModel(TINY, 5)
    freeze(model, start, 0)
    updater = Updater(copy.deepcopy(model), config, 100)
    strategy = Asynchronous(Objective(model, config), updater, Ranks(), ParallelConfig("asynchronous"))
    weight = updater.model.get_parameter("convolutions.0.kernel.weight")
    for epoch, learns in ((0, False), (1, True)):
        freeze(model, start, epoch)
        strategy.begin_epoch()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        before = weight.detach().clone()
        strategy.update(epoch)
        assert torch.equal(weight, before) != learns


def test_ranks_that_meet_have_all_heard_of_it() -> None:
    """Called while rank 0 is at update 3 and rank 1 at 1: nobody is past 5, and everybody hears before it."""
    config = TrainConfig(DataConfig((Path("a"),), Path("b")), TINY)
    updater = Updater(AcousticModel(TINY, 5), config, 100)
    server = ParameterServer(updater, Ranks(0, 2), staleness=9)
    tick = torch.zeros(message_size(updater))
    tick[0] = TICK
    for rank in (0, 0, 0, 1):
        assert server.answer(rank, tick)[1] == 0
    server.meet(stop=False)
    assert server.answer(0, tick)[1] == server.answer(1, tick)[1] == 5


def test_compression_pieces_and_thawing_go_together(spoken_digits, launch, tmp_path: Path) -> None:
    """With gradients in 16 bits; DDP learns of the parts that thaw in the second epoch."""
    manifest = spoken_digits(12)
    freeze = ('start.freeze=["convolutions"]', "start.freeze_epochs=1", "accumulate=2", "epochs=2")
    finished(launch(2, manifest, tmp_path / "run", *freeze, "parallel.compression=float16"))
    start = Trainer(load_config(TrainConfig, tmp_path / "train.toml"), tmp_path / "new").model.state_dict()
    found = weights(tmp_path / "run")
    moved = {name for name in found if not torch.equal(found[name], start[name]) and "frontend" not in name}
    assert "convolutions.0.kernel.weight" in moved
    assert "output.weight" in moved
    for tensor in found.values():
        assert tensor.isfinite().all()
