"""The model processes as the server sees them; real processes and pipes, but without a model."""

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ds2.recognition.live_config import LiveConfig
from ds2.recognition.options import DecoderOptions
from ds2.serve import model_process
from ds2.serve.dispatch import DispatchConfig
from ds2.serve.messages import Ready, Report, Result, Sound, Step, StreamConfig, WorkerConfig
from ds2.serve.model_process import ModelProcess, Timeouts
from ds2.serve.prometheus import Metrics
from ds2.utils.errors import InputError

Body = Callable[[WorkerConfig, Any], None]  # what runs in the process
WithProcess = Callable[..., None]


def worker_config(model: Path) -> WorkerConfig:
    return WorkerConfig(model, "cpu", DecoderOptions(), "float32", 4, LiveConfig(), DispatchConfig())


@pytest.fixture
def with_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WithProcess:
    """Has a test with one process that runs `body`; it is ended behind it. A body may keep a file at `config.model`."""

    def run(
        body: Body, test: Callable[[ModelProcess], Awaitable[Any]], timeout: float = 150.0, load: float = 150.0
    ) -> None:
        monkeypatch.setattr(model_process, "run_worker", body)
        config = worker_config(tmp_path / "model")

        async def run_test() -> None:
            model = ModelProcess("model 0", config, Metrics(), Timeouts(timeout, load))
            try:
                await asyncio.wait_for(test(model), 200)
            finally:
                model.stop()

        asyncio.run(run_test())

    return run


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def ill_at_first(config: WorkerConfig, connection: Any) -> None:
    """A process that cannot be started before the third time; it ends with the first command."""
    starts = config.model.read_text() if config.model.exists() else ""
    config.model.write_text(starts + "x")
    if len(starts) == 1:
        connection.send(InputError("the bundle is being replaced"))
    elif len(starts) != 2:
        connection.send(Ready(8000))
        connection.recv()


def test_a_process_that_cannot_load_for_a_while_is_started_until_it_can(
    with_process: WithProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second start fails with an error, the third without one; then the next pause is the first again."""
    monkeypatch.setattr(model_process, "RESTART_SECONDS", (0.01, 0.02))

    async def test(model: ModelProcess) -> None:
        assert await model.loaded == 8000
        handle = model.open(StreamConfig())
        await until(lambda: not model.is_ready)
        assert handle.failed == model_process.STOPPED
        await until(lambda: model.is_ready)
        assert (tmp_path / "model").read_text() == "xxxx"
        assert model.delay == 0.01

    with_process(ill_at_first, test)


def dies(config: WorkerConfig, connection: Any) -> None:
    os._exit(1)


def test_a_process_that_ends_before_it_was_ever_ready_is_not_started_again(with_process: WithProcess) -> None:
    async def test(model: ModelProcess) -> None:
        with pytest.raises(InputError, match="ended while it loaded"):
            await model.loaded
        assert model.stopping

    with_process(dies, test)


def silent(config: WorkerConfig, connection: Any) -> None:
    """A process that never answers."""
    connection.send(Ready(8000))
    with contextlib.suppress(EOFError):
        while True:
            connection.recv()


def test_a_wait_that_is_over_refuses_nobody(with_process: WithProcess) -> None:
    """The chunks of an upload wait for one another; behind the last of them nobody waits."""

    async def test(model: ModelProcess) -> None:
        for queue, seconds in ((3, 9.9), (0, 0.0)):
            model._report(Report([], Step(1, 12, 0.0, 9.9, queue=queue)))
            assert model.behind(60.0) == seconds

    with_process(silent, test)


def answers_once(config: WorkerConfig, connection: Any) -> None:
    """A process that hangs when all that it was sent is answered."""
    connection.send(Ready(8000))
    connection.recv()
    connection.send(Report([]))
    time.sleep(600)


@pytest.mark.parametrize("body", [silent, answers_once])
def test_a_process_that_hangs_is_replaced_though_nobody_sends_anything(with_process: WithProcess, body: Body) -> None:
    async def test(model: ModelProcess) -> None:
        await model.loaded
        handle, first = model.open(StreamConfig()), model.process
        await handle.changed.wait()
        assert handle.failed == model_process.STOPPED
        await until(lambda: model.process is not first and model.is_ready)

    with_process(body, test, timeout=0.4)


def test_a_process_is_not_to_blame_where_the_server_stood_still(with_process: WithProcess) -> None:
    async def test(model: ModelProcess) -> None:
        await model.loaded
        handle = model.open(StreamConfig())
        time.sleep(2.0)  # the event loop with it
        await asyncio.sleep(0.2)
        assert handle.failed is None
        await handle.changed.wait()
        assert handle.failed == model_process.STOPPED

    with_process(silent, test, timeout=1.0)


def pads(config: WorkerConfig, connection: Any) -> None:
    """A process that hears 1.5 s in whatever it is given."""
    connection.send(Ready(8000))
    with contextlib.suppress(EOFError):
        while True:
            for command in connection.recv():
                if isinstance(command, Sound):
                    connection.send(Report([Result(command.stream, 1.5, [])]))


def test_silence_that_the_model_heard_behind_a_reset_counts_as_no_sound(with_process: WithProcess) -> None:
    """It would let the client run ahead by as much."""

    async def test(model: ModelProcess) -> None:
        await model.loaded
        handle = model.open(StreamConfig())
        for second in (1.0, 2.0):
            handle.feed(bytes(16000))
            assert handle.backlog == 1.0
            await handle.changed.wait()
            handle.changed.clear()
            assert handle.processed == second

    with_process(pads, test)


def never_ready(config: WorkerConfig, connection: Any) -> None:
    """A process that hangs while it loads, from its second start on."""
    if not config.model.exists():
        config.model.touch()
        connection.send(Ready(8000))
        connection.recv()
        return
    time.sleep(600)


def test_a_process_that_hangs_while_it_loads_is_killed(with_process: WithProcess, tmp_path: Path) -> None:
    (tmp_path / "model").touch()

    async def test(model: ModelProcess) -> None:
        with pytest.raises(InputError, match=r"not ready after 0\.5 s"):
            await model.loaded
        await until(lambda: not model.process.is_alive())

    with_process(never_ready, test, load=0.5)


def test_a_process_that_hangs_in_a_later_start_is_started_again(with_process: WithProcess) -> None:
    async def test(model: ModelProcess) -> None:
        await model.loaded
        first = model.process
        model.timeouts = Timeouts(answer=1.0, load=0.5)  # no later start is in time
        model.open(StreamConfig())  # it ends
        await until(lambda: model.process is not first)
        second = model.process
        await until(lambda: model.process is not second)
        assert not second.is_alive()

    with_process(never_ready, test, timeout=1.0)


ORPHAN = """
import multiprocessing, os, time
from ds2.utils.forks import die_with_parent

def body():
    die_with_parent(multiprocessing.parent_process().pid)
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=body).start()
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_process_dies_with_its_parent(tmp_path: Path) -> None:
    """Whatever it is doing; the parent cannot say goodbye."""
    (tmp_path / "parent.py").write_text(ORPHAN)
    with subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        ended, _, _ = select.select([child], [], [], 100)
        os.close(child)
        assert ended
