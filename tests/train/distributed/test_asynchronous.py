"""Asynchronous training: its parameter server, and two real processes."""

import copy
import threading
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.training import (
    learns_stops_and_continues,
)

from ds2.model.acoustic import AcousticModel
from ds2.train.config import DataConfig, OptimizerConfig, ParallelConfig, StartConfig, TrainConfig
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.parameter_server import HEAD, TICK, UPDATE, ParameterServer, divide
from ds2.train.distributed.ranks import Ranks
from ds2.train.objective import Objective
from ds2.train.transfer import freeze
from ds2.train.update import Updater


@pytest.mark.long
def test_it_learns_stops_and_continues(spoken_digits, launch, tmp_path: Path) -> None:
    learns_stops_and_continues(spoken_digits(21), launch, tmp_path, "asynchronous", replicas=1)


def test_a_rank_that_is_too_far_ahead_waits_for_the_slowest() -> None:
    """Staleness 2, ranks 0 and 1: rank 0's third update beyond rank 1 is answered only when rank 1 has made one."""
    config = TrainConfig(DataConfig((Path("a"),), Path("b")), TINY, optimizer=OptimizerConfig("sgd", 1e-3))
    updater = Updater(AcousticModel(TINY, 5), config, 100)
    twin = Updater(copy.deepcopy(updater.model), config, 100)
    server = whole_server(updater, staleness=2)
    message = torch.cat([torch.tensor([float(UPDATE), 0.0, 0.0, 1.0]), torch.ones(server.size - HEAD)])
    for _ in range(2):
        server.answer(0, message)
    ahead = threading.Thread(target=server.answer, args=(0, message))
    ahead.start()
    with server.changed:
        assert server.changed.wait_for(lambda: server.clocks[0] == 3, timeout=60)
    assert ahead.is_alive()
    server.answer(1, message)
    ahead.join(timeout=60)
    assert not ahead.is_alive()
    assert server.clocks == {0: 3, 1: 1}
    for _ in range(4):
        for parameter in twin.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        twin.update(0, torch.tensor(1.0))
    for expected, found in zip(twin.model.parameters(), updater.model.parameters(), strict=True):
        assert torch.equal(expected, found)


def whole_server(updater: Updater, staleness: int) -> ParameterServer:
    """The only server of two groups of one rank."""
    return ParameterServer(updater, Ranks(0, 2), range(2), divide(updater.model, 1)[0], staleness)


def test_parts_are_released_in_the_server_too() -> None:
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


def test_no_rank_passes_a_meeting_that_it_does_not_know_of() -> None:
    """Called while rank 0 is at update 3 and rank 1 at 1: both ranks learn of clock 5 before they reach it."""
    config = TrainConfig(DataConfig((Path("a"),), Path("b")), TINY)
    updater = Updater(AcousticModel(TINY, 5), config, 100)
    server = whole_server(updater, staleness=9)
    tick = torch.zeros(server.size)
    tick[0] = TICK
    for rank in (0, 0, 0, 1):
        assert server.answer(rank, tick)[1] == 0
    server.meet(stop=False)
    assert server.answer(0, tick)[1] == server.answer(1, tick)[1] == 5
