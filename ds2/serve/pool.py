"""The model processes as the server sees them: streams in, results out; one that dies or hangs is started again.

    event loop   handle.feed() -> | outbox | --thread--> pipe --> worker process
                 handle changes <---- call_soon_threadsafe ------ pipe

Nothing here blocks the event loop, and nothing grows without bound: what waits of a stream is counted in its backlog,
which the server keeps below its limit.
"""

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from ds2.serve.logs import log_to_stderr
from ds2.serve.messages import (
    SAMPLE_BYTES,
    Close,
    Command,
    End,
    Event,
    Failed,
    Final,
    Open,
    Partial,
    Ready,
    Report,
    Sound,
    SpanEnd,
    StreamConfig,
    WorkerConfig,
)
from ds2.serve.metrics import Metrics
from ds2.utils.errors import InputError

log = logging.getLogger("ds2.serve")
STOPPED = "the model process stopped; connect again"
RESTART_SECONDS = (0.2, 5.0)  # before a process is started again: the first time, and at most
LOOKS = 4  # at a process in the time that it has to answer
NOBODY = -1  # the number of no stream: a command for it is only answered
STOP_SECONDS = 5.0  # that a killed process has to end; one that is stuck in a driver does not


class Busy(Exception):
    """No stream can be let in now; the message says why."""


class Handle:
    """A stream as its client's connection sees it: sound goes in, and what has come of it is looked up.

    `changed` is set whenever something has; whoever waits for it clears it.
    """

    def __init__(self, process: "ModelProcess", number: int, config: StreamConfig):
        self.process, self.number = process, number
        self.byte_rate = SAMPLE_BYTES[config.encoding] * config.sample_rate
        self.partial = Partial("")
        self.finals: deque[Final] = deque()
        self.ends: deque[SpanEnd] = deque()
        self.failed: str | None = None
        self.changed = asyncio.Event()
        self.on_failure: Callable[[], None] = lambda: None
        self.fed = self.heard = 0.0  # seconds of sound given, and that the model has heard
        self.ending: deque[float] = deque()  # when the client ended each span whose end was not taken yet

    @property
    def backlog(self) -> float:
        """Seconds of sound that wait for the model."""
        return max(0.0, self.fed - self.heard)

    def feed(self, data: bytes) -> None:
        self.fed += len(data) / self.byte_rate
        self.process.send(Sound(self.number, data))

    def end(self, last: bool = True) -> None:
        self.ending.append(time.monotonic())
        self.process.send(End(self.number, last))

    def close(self) -> None:
        """Nobody waits for results any more."""
        self.process.release(self.number)

    def take(self, event: Event) -> None:
        if isinstance(event, Partial):
            self.partial = event
        elif isinstance(event, Final):
            self.finals.append(event)
            self.partial = Partial("")
        elif isinstance(event, SpanEnd):
            self.ends.append(event)
            self.partial = Partial("")
        elif self.failed is None:
            self.failed = event.reason
            self.on_failure()
            self.process.metrics.failures.inc()


class ModelProcess:
    """One worker process and the streams that it serves."""

    def __init__(self, name: str, config: WorkerConfig, metrics: Metrics, patience: float):
        """`patience`: seconds that commands wait for an answer before the process is killed; not while it loads."""
        self.name, self.config, self.metrics, self.patience = name, config, metrics, patience
        self.looked = time.monotonic()  # when the last look at the process was
        self.streams: dict[int, Handle] = {}
        self.numbers = itertools.count()
        self.loaded: asyncio.Future[int] = asyncio.get_running_loop().create_future()  # sample rate; the first time
        self.is_ready = False
        self.waited, self.stepped = 0.0, 0.0  # seconds that the last batch's first chunk waited; when that was
        self.queue = 0  # chunks that waited behind it
        self.asked: float | None = None  # when the first command was sent that no report has followed
        self.stopping = False
        self.delay = RESTART_SECONDS[0]
        self._start()
        self._watch()

    def behind(self, recent: float) -> float:
        """Seconds that a chunk waited in the last batch, if that was less than `recent` seconds ago; or that commands
        have waited for an answer, which is long where the process hangs."""
        waited = self.waited if time.monotonic() - self.stepped < recent else 0.0
        return max(waited, self.unanswered)

    @property
    def unanswered(self) -> float:
        """Seconds that commands have waited for an answer."""
        return 0.0 if self.asked is None else time.monotonic() - self.asked

    def open(self, config: StreamConfig) -> Handle:
        handle = Handle(self, next(self.numbers), config)
        self.streams[handle.number] = handle
        self.send(Open(handle.number, config))
        return handle

    def send(self, command: Command) -> None:
        self.outbox.put(command)
        if self.asked is None:
            self.asked = time.monotonic()

    def release(self, number: int) -> None:
        if self.streams.pop(number, None) is not None:
            self.send(Close(number))

    def stop(self) -> None:
        self.stopping = True
        self.process.kill()  # it holds nothing that anybody could miss
        self.process.join(STOP_SECONDS)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self.process = context.Process(target=run_worker, args=(self.config, there), name=self.name, daemon=True)
        self.process.start()
        there.close()
        self.outbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_write, args=(here, self.outbox), daemon=True).start()
        threading.Thread(target=self._read, args=(here, loop), daemon=True).start()

    def _read(self, connection: "Connection[Any, Any]", loop: asyncio.AbstractEventLoop) -> None:
        """A thread: hands everything that comes to the event loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            try:
                while True:
                    loop.call_soon_threadsafe(self._take, connection.recv())
            except (EOFError, OSError):
                loop.call_soon_threadsafe(self._ended)

    def _take(self, message: Report | Ready | InputError) -> None:
        if isinstance(message, Ready):
            self._begin(message.sample_rate)
        elif isinstance(message, InputError):
            self._fail(message)
        else:
            self._report(message)

    def _begin(self, sample_rate: int) -> None:
        self.is_ready, self.asked, self.delay = True, None, RESTART_SECONDS[0]
        if not self.loaded.done():
            self.loaded.set_result(sample_rate)

    def _fail(self, error: InputError) -> None:
        """The model cannot be loaded: at the start for good, later perhaps only for now, as while it is replaced."""
        if self.loaded.done():
            log.error("the model cannot be loaded", extra={"facts": {"worker": self.name, "reason": str(error)}})
        else:
            self.stopping = True
            self.loaded.set_exception(error)

    def _report(self, report: Report) -> None:
        self.asked = None
        if report.step is not None:
            self.metrics.step(report.step)
            self.waited, self.stepped, self.queue = report.step.waited, time.monotonic(), report.step.queue
        for result in report.results:
            handle = self.streams.get(result.stream)
            if handle is None:
                continue
            handle.heard = min(handle.fed, handle.heard + result.seconds)  # silence was added behind each span
            for event in result.events:
                handle.take(event)
                if isinstance(event, Failed) or (isinstance(event, SpanEnd) and event.last):
                    del self.streams[result.stream]
            handle.changed.set()

    def _ended(self) -> None:
        """The process is gone: its streams hear of it, and another takes its place."""
        self.outbox.put(None)
        lost = self._fail_streams()
        self.waited, self.queue = 0.0, 0
        if not self.stopping and not self.loaded.done():
            self._fail(InputError(f"{self.name}: the process ended while it loaded the model; it says why above"))
        if self.stopping:
            return
        self.metrics.restarts.inc()
        facts = {"worker": self.name, "streams": lost, "again_in": self.delay}
        log.error("model process stopped", extra={"facts": facts})
        asyncio.get_running_loop().call_later(self.delay, self._start_again)
        self.delay = min(RESTART_SECONDS[1], 2 * self.delay)

    def _fail_streams(self) -> int:
        """No new ones come before the next process is ready; how many there were."""
        self.is_ready = False
        streams, self.streams = self.streams, {}
        for handle in streams.values():
            handle.take(Failed(STOPPED))
            handle.changed.set()
        return len(streams)

    def _start_again(self) -> None:
        if not self.stopping:
            self._start()

    def _watch(self) -> None:
        """Looks at the process now and then, and asks it; one that hangs is killed, and another takes its place."""
        if self.stopping:
            return
        now, between = time.monotonic(), self.patience / LOOKS
        if self.asked is not None and now - self.looked > 2 * between:  # it was the server that stood still
            self.asked = now
        self.looked = now
        if self.is_ready and self.unanswered > self.patience:
            facts = {"worker": self.name, "seconds": round(self.unanswered, 2), "streams": self._fail_streams()}
            log.error("model process hangs", extra={"facts": facts})
            self.process.kill()
        elif self.is_ready and self.asked is None:
            self.send(Close(NOBODY))
        asyncio.get_running_loop().call_later(between, self._watch)


class Pool:
    """All model processes."""

    def __init__(self, configs: list[WorkerConfig], metrics: Metrics, wait: float, patience: float):
        """`wait`: seconds that chunks, or commands, wait for the model above which no stream is let in.

        `patience`: as of ModelProcess.
        """
        self.wait = wait
        self.processes = [
            ModelProcess(f"model {number}", config, metrics, patience) for number, config in enumerate(configs)
        ]
        metrics.queue.set_function(lambda: sum(process.queue for process in self.processes))

    async def started(self) -> int:
        """Waits until every process has its model; returns the model's sample rate (Hz).

        Raises:
            InputError: the model cannot be loaded, or cannot stream.
        """
        return (await asyncio.gather(*(process.loaded for process in self.processes)))[0]

    @property
    def is_ready(self) -> bool:
        return any(process.is_ready and process.behind(self.wait) <= self.wait for process in self.processes)

    @property
    def streams(self) -> int:
        return sum(len(process.streams) for process in self.processes)

    def open(self, config: StreamConfig) -> Handle:
        """A stream on the process that has the fewest, of those that are not behind.

        Raises:
            Busy: none is ready, or all are behind.
        """
        ready = [process for process in self.processes if process.is_ready]
        if not ready:
            raise Busy("the model is not ready")
        process = min(ready, key=lambda process: (process.behind(self.wait) > self.wait, len(process.streams)))
        if len(process.streams) >= process.config.slots:
            raise Busy(f"{self.streams} streams are open, as many as are allowed")
        if (behind := process.behind(self.wait)) > self.wait:
            raise Busy(f"the model is {behind:.1f} s behind")
        return process.open(config)

    def stop(self) -> None:
        for process in self.processes:
            process.stop()


def run_worker(config: WorkerConfig, connection: "Connection[Any, Any]") -> None:
    """The body of a model process; torch is imported there alone."""
    log_to_stderr()
    from ds2.serve.worker import main

    main(config, connection)


def _write(connection: "Connection[Any, Any]", outbox: "queue.SimpleQueue[Command | None]") -> None:
    """A thread: sends all that waits, together."""
    with contextlib.suppress(OSError), connection:  # OSError: the process is gone, as the reader finds out too
        while (command := outbox.get()) is not None:
            commands = [command]
            with contextlib.suppress(queue.Empty):
                while (command := outbox.get_nowait()) is not None:
                    commands.append(command)
                connection.send(commands)
                return
            connection.send(commands)
