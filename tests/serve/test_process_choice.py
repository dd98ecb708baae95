"""All model processes together; real processes and pipes, but without a model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from serve.test_model_process import silent, until, worker_config

from ds2.serve import model_process
from ds2.serve.messages import Close, Ready, Report, Step, StreamConfig, WorkerConfig
from ds2.serve.model_process import Timeouts
from ds2.serve.process_choice import Busy, Pool
from ds2.serve.prometheus import Metrics

pytestmark = pytest.mark.anyio


async def test_streams_go_to_the_process_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "run_worker", silent)
    both = Pool(
        [worker_config(tmp_path), worker_config(tmp_path)], Metrics(), max_queue=0.01, timeouts=Timeouts(60.0, 60.0)
    )
    try:
        await both.started()
        first = both.open(StreamConfig()).process
        await asyncio.sleep(0.02)
        assert both.is_ready
        second = both.open(StreamConfig()).process
        assert {first, second} == set(both.processes)
        await asyncio.sleep(0.02)
        assert not both.is_ready
        with pytest.raises(Busy, match="behind"):
            both.open(StreamConfig())
    finally:
        both.stop()


def lags(config: WorkerConfig, connection: Any) -> None:
    """A process with 5 chunks that wait; it ends when a stream is closed."""
    connection.send(Ready(8000))
    while not any(isinstance(command, Close) for command in connection.recv()):
        connection.send(Report([], Step(1, 12, 0.0, 0.0, queue=5)))


async def test_the_queue_is_that_of_all_processes_that_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "run_worker", lags)
    both = Pool(
        [worker_config(tmp_path), worker_config(tmp_path)], Metrics(), max_queue=60.0, timeouts=Timeouts(60.0, 60.0)
    )

    async def queue(chunks: int) -> None:
        await until(lambda: both.queue == chunks)

    try:
        await both.started()
        first, _ = both.open(StreamConfig()), both.open(StreamConfig())
        await queue(10)
        first.close()
        await queue(5)
    finally:
        both.stop()
