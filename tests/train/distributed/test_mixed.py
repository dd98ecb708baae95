"""Mixed training: groups of ranks with parameter servers, in real processes by gloo."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.training import difference, finished, learns_stops_and_continues, plain_config

from ds2.model.acoustic import AcousticModel
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import OptimizerConfig
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.parameter_server import divide
from ds2.train.distributed.ranks import Ranks
from ds2.train.objective import Objective
from ds2.train.optimizer import joined_state
from ds2.train.update import Updater
from ds2.utils.errors import InputError

ONE_GROUP = ("parallel.strategy=mixed", "parallel.group=2", "parallel.staleness=0", "epochs=2")


@pytest.mark.long
def test_one_group_without_staleness_is_synchronous(spoken_digits, launch, tmp_path: Path) -> None:
    """With two servers each holds half of the weights, and the second one is no leader."""
    manifest = spoken_digits(21)
    finished(launch(2, manifest, tmp_path / "synchronous", "epochs=2"))
    [expected] = load_checkpoint(tmp_path / "synchronous" / "checkpoint.pt")["replicas"]
    for servers in (1, 2):
        finished(launch(2, manifest, tmp_path / f"mixed{servers}", *ONE_GROUP, f"parallel.servers={servers}"))
        [found] = load_checkpoint(tmp_path / f"mixed{servers}" / "checkpoint.pt")["replicas"]
        assert difference(expected["model"], found["model"]) < 1e-6
        momenta = [each["optimizer"]["state"] for each in (expected, found)]
        assert momenta[0].keys() == momenta[1].keys()
        for parameter, state in momenta[0].items():
            assert torch.allclose(state["momentum_buffer"], momenta[1][parameter]["momentum_buffer"], atol=1e-4)


SCRIPT = """
import sys, torch
import torch.distributed as dist
from helpers.strategies import trained_in_turns
from ds2.train.distributed.ranks import join_ranks
with join_ranks("cpu") as (ranks, _):
    for run in sys.argv[2:]:
        strategy, group, servers = run.split(",")
        trained_in_turns(ranks, strategy, int(group), int(servers), sys.argv[1] + run)
"""


@pytest.fixture
def turns(tmp_path: Path) -> Callable[..., list[list]]:
    """turns(ranks, "strategy,group,servers", ...): what helpers.strategies.trained_in_turns found in each rank, by run.

    The same processes make all runs.
    """

    def start(ranks: int, *runs: str) -> list[list]:
        script = tmp_path / "turns.py"
        script.write_text(SCRIPT)
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        arguments = [str(script), f"{tmp_path}/", *runs]
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *torchrun, *arguments], check=True, timeout=120, env=environment)
        return [[torch.load(tmp_path / f"{run}.{rank}.pt") for rank in range(ranks)] for run in runs]

    return start


@pytest.mark.long
def test_groups_of_one_are_asynchronous(turns) -> None:
    """Two ranks that update in turns, so that the order of updates is fixed: the same bits."""
    asynchronous, mixed, two_servers = turns(2, "asynchronous,1,0", "mixed,1,1", "mixed,1,2")
    assert difference(asynchronous[0]["model"], mixed[0]["model"]) == 0
    assert difference(asynchronous[0]["model"], two_servers[0]["model"]) < 1e-6
    assert difference(two_servers[0]["model"], two_servers[1]["model"]) == 0


@pytest.mark.long
def test_bytes_of_each_link(turns) -> None:
    """Four ranks in two groups, two servers in ranks 0 and 1; leaders are ranks 0 and 2, three exchanges each."""
    [found] = turns(4, "mixed,2,2")
    parameters, statistics = found[0]["sizes"]
    first, second = found[0]["shares"]
    assert first + second == parameters
    exchanges = 3  # two updates and one fetch
    whole = 4 * (4 + parameters + statistics)
    to_first, to_second = 4 * (4 + first + statistics), 4 * (4 + second)
    assert found[0]["traffic"]["server 1"] == exchanges * to_second
    assert found[2]["traffic"]["server 0"] == exchanges * to_first
    assert found[2]["traffic"]["server 1"] == exchanges * to_second
    # Rank 0 sends the weights to its group and answers rank 2; rank 1 answers both leaders.
    assert found[0]["traffic"]["weights"] == exchanges * (whole + to_first)
    assert found[1]["traffic"]["weights"] == exchanges * 2 * to_second
    assert found[3]["traffic"].keys() == {"group"}
    gradient = 4 * parameters
    assert found[3]["traffic"]["group"] >= 2 * gradient
    for other in found[1:]:
        assert difference(found[0]["model"], other["model"]) == 0


@pytest.mark.long
def test_it_learns_stops_and_continues(spoken_digits, launch, tmp_path: Path) -> None:
    learns_stops_and_continues(spoken_digits(21), launch, tmp_path, "mixed", 1, "parallel.servers=2")


def test_servers_share_whole_parameters_in_even_parts() -> None:
    model = AcousticModel(TINY, 5)
    sizes = [parameter.numel() for parameter in model.parameters()]
    for servers in (1, 2, 3):
        parts = divide(model, servers)
        assert [index for part in parts for index in part] == list(range(len(sizes)))
        shares = [sum(sizes[part.start : part.stop]) for part in parts]
        assert max(shares) - min(shares) <= 2 * max(sizes)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_states_of_an_optimiser_in_parts_join(name: str, tmp_path: Path) -> None:
    """Of two optimisers each has updated half of the parameters; joined they have the state of one that did all."""
    model = AcousticModel(TINY, 5)
    states = []
    for part in (divide(model, 1)[0], *divide(model, 2)):
        optimizer = Updater(model, plain_config(tmp_path, optimizer=OptimizerConfig(name)), 10).optimizer
        for index, parameter in enumerate(model.parameters()):
            parameter.grad = torch.ones_like(parameter) if index in part else None
        optimizer.step()
        states.append(optimizer.state_dict())
    whole, joined = states[0], joined_state(states[1:])
    for expected, found in zip(whole.get("parts", [whole]), joined.get("parts", [joined]), strict=True):
        assert expected["state"].keys() == found["state"].keys()


def test_more_servers_than_ranks_are_refused(tmp_path: Path) -> None:
    config = plain_config(tmp_path)
    model = AcousticModel(TINY, 5)
    parallel = type(config.parallel)("mixed", servers=2)
    with pytest.raises(InputError, match=r"parallel\.servers = 2: there are only 1 ranks"):
        Asynchronous(Objective(model, config), Updater(model, config, 10), Ranks(), parallel)
