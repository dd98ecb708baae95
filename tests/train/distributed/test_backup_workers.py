"""Backup workers: updates without the slowest gradients, in real processes by gloo."""

import copy
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.training import (
    checkpoint_weights,
    difference,
    finished,
    history,
    learns_stops_and_continues,
    plain_config,
)

from ds2.data.sampler import Share, SortaGradSampler
from ds2.model.acoustic import AcousticModel
from ds2.train.config import ParallelConfig
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.backup_workers import BackupServer, BackupWorkers
from ds2.train.distributed.parameter_server import FETCH, HEAD, UPDATE, divide
from ds2.train.distributed.ranks import Ranks
from ds2.train.objective import Objective
from ds2.train.update import Updater
from ds2.utils.errors import InputError

OWN_STATISTICS = "parallel.synchronize_batch_norm=false"


@pytest.mark.long
def test_without_backups_it_is_synchronous(spoken_digits, launch, tmp_path: Path) -> None:
    """But for the statistics of batch normalisation: DDP keeps those of the first rank, the server their mean."""
    manifest = spoken_digits(21)
    settings = ("epochs=2", OWN_STATISTICS)
    finished(launch(2, manifest, tmp_path / "synchronous", *settings))
    backup = ("parallel.strategy=backup-workers", "parallel.backups=0")
    finished(launch(2, manifest, tmp_path / "backup", *settings, *backup))
    expected, found = (checkpoint_weights(tmp_path / run) for run in ("synchronous", "backup"))
    learnt = [name for name in expected if not name.endswith(("mean", "variance"))]
    assert difference({name: expected[name] for name in learnt}, {name: found[name] for name in learnt}) < 1e-6


@pytest.mark.long
def test_it_learns_stops_and_continues(spoken_digits, launch, tmp_path: Path) -> None:
    """Of two ranks the first gradient counts."""
    learns_stops_and_continues(spoken_digits(21), launch, tmp_path, "backup-workers", 1)


def server_of(ranks: int, backups: int) -> BackupServer:
    updater = Updater(AcousticModel(TINY, 5), plain_config(Path("unused.jsonl")), 10)
    parts = divide(updater.model, 1)[0]
    return BackupServer(updater, Ranks(0, ranks), range(ranks), parts, ranks - backups)


def learnt_of(model: AcousticModel) -> dict[str, torch.Tensor]:
    """The parameters, as they go on changing."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def gradient(server: BackupServer, value: float, utterances: int) -> torch.Tensor:
    head = torch.tensor([float(UPDATE), 0.0, 0.0, float(utterances)])
    return torch.cat([head, torch.full((server.size - HEAD,), value)])


def test_an_update_is_the_mean_over_utterances_of_the_first_gradients() -> None:
    """Two of three ranks, of 1 and 3 utterances; the third gradient changes nothing."""
    server = server_of(3, backups=1)
    twin = copy.deepcopy(server.updater.model)
    waiting = threading.Thread(target=server.answer, args=(0, gradient(server, 2.0, 1)))
    waiting.start()
    while not server.arrived:
        time.sleep(0.001)
    answer = server.answer(1, gradient(server, -1.0, 3))
    waiting.join(timeout=60)
    assert answer[HEAD - 1] == server.step == 1
    mean = Updater(twin, plain_config(Path("unused.jsonl")), 10)
    for parameter in twin.parameters():
        parameter.grad = torch.full_like(parameter, (2.0 * 1 - 1.0 * 3) / 4)
    mean.update(0)
    found = learnt_of(server.updater.model)
    assert difference(learnt_of(twin), found) < 1e-7
    before = {name: weight.clone() for name, weight in found.items()}
    late = server.answer(2, gradient(server, 9.0, 4))
    assert late[HEAD - 1] == 1
    assert difference(before, found) == 0
    assert (server.arrived, server.left_out) == (2, 1)


def test_a_question_for_the_weights_counts_as_no_gradient() -> None:
    server = server_of(2, backups=0)
    question = gradient(server, 1.0, 1)
    question[0] = FETCH
    assert server.answer(0, question)[HEAD - 1] == 0
    assert server.collected.ranks == 0


SCRIPT = """
import sys
from helpers.strategies import trained_with_a_late_rank
from ds2.train.distributed.ranks import join_ranks
with join_ranks("cpu") as (ranks, _):
    trained_with_a_late_rank(ranks, sys.argv[1])
"""


@pytest.mark.long
def test_a_late_rank_skips_to_the_others_and_meets_them(tmp_path: Path) -> None:
    """Rank 2 of three sends its first gradient when the others have made two updates; then all save together."""
    script = tmp_path / "late.py"
    script.write_text(SCRIPT)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *torchrun, str(script), f"{tmp_path}/"]
    subprocess.run(command, check=True, timeout=120, env=environment)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(3)]
    assert [each["minibatches"] for each in found] == [8, 8, 8]
    assert found[2]["skipped"] >= 1
    assert found[0]["left_out"] >= 1
    assert found[0]["saved_at"] == found[1]["saved_at"] == found[2]["saved_at"] == [3]
    for other in found[1:]:
        assert difference(found[0]["model"], other["model"]) == 0


@pytest.mark.long
def test_dedicated_servers_take_no_utterances(spoken_digits, launch, tmp_path: Path) -> None:
    """The first of three ranks serves; the epoch's utterances are all trained on by the others."""
    settings = ("epochs=3", "parallel.strategy=asynchronous", "parallel.servers=1", "parallel.dedicated=true")
    finished(launch(3, spoken_digits(21), tmp_path / "run", *settings))
    losses = [epoch["loss"] for epoch in history(tmp_path / "run")]
    assert losses[-1] < losses[0]
    durations = [1.0, 2.0, 3.0, 4.0]
    shares = [SortaGradSampler(durations, 4, 1, share=Share(rank - 1, 2)) for rank in range(3)]
    taken = [[index for batch in share for _, index in batch] for share in shares]
    assert taken[0] == []
    assert sorted(taken[1] + taken[2]) == [0, 1, 2, 3]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="have one server"):
        ParallelConfig("backup-workers", servers=2)
    config = plain_config(Path("unused.jsonl"))
    model = AcousticModel(TINY, 5)
    for parallel in (ParallelConfig("backup-workers"), ParallelConfig("backup-workers", backups=0, dedicated=True)):
        with pytest.raises(InputError, match="there are only 1 ranks"):
            BackupWorkers(Objective(model, config), Updater(model, config, 10), Ranks(), parallel)


def test_ranks_that_all_serve_are_refused(tmp_path: Path) -> None:
    config = plain_config(tmp_path)
    model = AcousticModel(TINY, 5)
    parallel = ParallelConfig("asynchronous", dedicated=True)
    with pytest.raises(InputError, match=r"parallel\.dedicated: all ranks are servers"):
        Asynchronous(Objective(model, config), Updater(model, config, 10), Ranks(), parallel)
