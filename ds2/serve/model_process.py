"""A model process as the server sees it: commands out, results in. A process that dies or hangs is replaced.

    event loop   handle.feed() -> | outbox | --thread--> pipe --> worker process
                 handle changes <---- call_soon_threadsafe ------ pipe

Nothing here blocks the event loop, and nothing grows without bound: the sound that waits is counted in the backlog of
its stream, and the server keeps that below its limit.
"""

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import queue
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from ds2.serve.logs import log_to_stderr
from ds2.serve.messages import Close, Command, Failed, Open, Ready, Report, StreamConfig, StreamEnd, WorkerConfig
from ds2.serve.prometheus import Metrics
from ds2.serve.stream_handle import Handle
from ds2.utils.errors import InputError
from ds2.utils.forks import die_with_parent

log = logging.getLogger("ds2.serve")
STOPPED = "the model process stopped; connect again"
RESTART_SECONDS = (0.2, 5.0)  # the pause before a restart: the first one, and the longest
CHECKS_PER_TIMEOUT = 4  # of a process
NO_STREAM = -1  # the number of a command that is only answered
STOP_SECONDS = 5.0  # for a killed process to end; one that is stuck in a driver does not


@dataclass(frozen=True)
class Timeouts:
    """Seconds after which a model process is killed: `answer` for commands, `load` for its start."""

    answer: float
    load: float


class ModelProcess:
    """One worker process and the streams that it serves."""

    def __init__(self, name: str, config: WorkerConfig, metrics: Metrics, timeouts: Timeouts):
        self.name, self.config, self.metrics, self.timeouts = name, config, metrics, timeouts
        self.checked_at = time.monotonic()
        self.loads_since: float | None = None  # when the process that is not ready yet was started
        self.streams: dict[int, Handle] = {}
        self.numbers = itertools.count()
        self.loaded: asyncio.Future[int] = asyncio.get_running_loop().create_future()  # sample rate; the first time
        self.is_ready = False
        self.waited, self.stepped = 0.0, 0.0  # seconds that the oldest chunk of the last batch waited; when that was
        self.queue = 0  # chunks that waited after that batch
        self.asked: float | None = None  # when the oldest unanswered command was sent
        self.stopping = False
        self.delay = RESTART_SECONDS[0]
        self._start()
        self._check()

    def behind(self, recent: float) -> float:
        """Seconds that chunks wait for the model: those of the last batch, if others waited after it and it ran less
        than `recent` seconds ago, or those that a command is unanswered, which is long where the process hangs."""
        waited = self.waited if self.queue and time.monotonic() - self.stepped < recent else 0.0
        return max(waited, self.unanswered)

    @property
    def unanswered(self) -> float:
        """Seconds since the oldest unanswered command."""
        return 0.0 if self.asked is None else time.monotonic() - self.asked

    def open(self, config: StreamConfig) -> Handle:
        """Opens a stream."""
        handle = Handle(self, next(self.numbers), config)
        self.streams[handle.number] = handle
        self.send(Open(handle.number, config))
        return handle

    def send(self, command: Command) -> None:
        """Gives the process a command; it must answer within the time that the limits allow."""
        self.outbox.put(command)
        if self.asked is None:
            self.asked = time.monotonic()

    def release(self, number: int) -> None:
        """Ends the stream of this number, if it is still open."""
        if self.streams.pop(number, None) is not None:
            self.send(Close(number))

    def stop(self) -> None:
        """Kills the process and waits for its end."""
        self.stopping = True
        self.process.kill()  # it has no state that must be saved
        self.process.join(STOP_SECONDS)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self.process = context.Process(target=run_worker, args=(self.config, there), name=self.name, daemon=True)
        self.process.start()
        self.loads_since = time.monotonic()
        there.close()
        self.outbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_write_commands, args=(here, self.outbox), daemon=True).start()
        threading.Thread(target=self._read, args=(here, loop), daemon=True).start()

    def _read(self, connection: "Connection[Any, Any]", loop: asyncio.AbstractEventLoop) -> None:
        """A thread: passes every message to the event loop."""
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
        self.loads_since = None
        if not self.loaded.done():
            self.loaded.set_result(sample_rate)

    def _fail(self, error: InputError) -> None:
        """The model cannot be loaded. At the start that is final; later it may not be: the bundle is being replaced."""
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
            # The padding at an end or a reset is no sound of the client.
            handle.processed = min(handle.fed, handle.processed + result.seconds)
            for event in result.events:
                handle.take(event)
                if isinstance(event, Failed) or (isinstance(event, StreamEnd) and event.last):
                    del self.streams[result.stream]
            handle.changed.set()

    def _ended(self) -> None:
        """The process has ended: its streams fail, and it is started again."""
        self.outbox.put(None)
        self.loads_since = None
        lost = self._fail_streams()
        self.waited, self.queue = 0.0, 0
        if not self.stopping and not self.loaded.done():
            self._fail(InputError(f"{self.name}: the process ended while it loaded the model; its log says why"))
        if self.stopping:
            return
        self.metrics.restarts.inc()
        facts = {"worker": self.name, "streams": lost, "again_in": self.delay}
        log.error("model process stopped", extra={"facts": facts})
        asyncio.get_running_loop().call_later(self.delay, self._start_again)
        self.delay = min(RESTART_SECONDS[1], 2 * self.delay)

    def _fail_streams(self) -> int:
        """Fails all streams and returns their number; the process takes no new ones until it is ready again."""
        self.is_ready = False
        streams, self.streams = self.streams, {}
        for handle in streams.values():
            handle.take(Failed(STOPPED))
            handle.changed.set()
        return len(streams)

    def _start_again(self) -> None:
        if not self.stopping:
            self._start()

    def _check(self) -> None:
        """Runs several times per timeout: asks the process for an answer, and kills it if none came in time."""
        if self.stopping:
            return
        now, interval = time.monotonic(), min(self.timeouts.answer, self.timeouts.load) / CHECKS_PER_TIMEOUT
        if now - self.checked_at > 2 * interval:  # the server itself was stopped, perhaps the process as well
            self.asked = None if self.asked is None else now
            self.loads_since = None if self.loads_since is None else now
        self.checked_at = now
        if self.loads_since is not None and now - self.loads_since > self.timeouts.load:
            self._kill_loading()
        elif self.is_ready and self.unanswered > self.timeouts.answer:
            facts = {"worker": self.name, "seconds": round(self.unanswered, 2), "streams": self._fail_streams()}
            log.error("model process hangs", extra={"facts": facts})
            self.process.kill()
        elif self.is_ready and self.asked is None:
            self.send(Close(NO_STREAM))
        asyncio.get_running_loop().call_later(interval, self._check)

    def _kill_loading(self) -> None:
        """The process has not loaded its model in time."""
        self.loads_since = None
        self.process.kill()
        self._fail(InputError(f"{self.name}: not ready after {self.timeouts.load:g} s (limits.load_timeout_seconds)"))


def run_worker(config: WorkerConfig, connection: "Connection[Any, Any]") -> None:
    """The body of a model process; only here is torch imported."""
    parent = multiprocessing.parent_process()
    die_with_parent(parent.pid if parent else None)  # also while the model is loaded
    log_to_stderr()
    from ds2.serve.model_worker import serve_model

    serve_model(config, connection)


def _write_commands(connection: "Connection[Any, Any]", outbox: "queue.SimpleQueue[Command | None]") -> None:
    """A thread: sends all waiting commands in one message."""
    with contextlib.suppress(OSError), connection:  # OSError: the process has ended; the reader notices as well
        while (command := outbox.get()) is not None:
            commands = [command]
            with contextlib.suppress(queue.Empty):
                while (command := outbox.get_nowait()) is not None:
                    commands.append(command)
                connection.send(commands)
                return
            connection.send(commands)
