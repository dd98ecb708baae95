"""A stream as its client's connection sees it: sound goes in, results come out."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ds2.serve.messages import (
    SAMPLE_BYTES,
    Alternatives,
    Command,
    End,
    Event,
    Final,
    LeftOut,
    Partial,
    Sound,
    StreamConfig,
    StreamEnd,
)
from ds2.serve.prometheus import Metrics


class Process(Protocol):
    """The part of a model process that a stream needs."""

    metrics: Metrics

    def send(self, command: Command) -> None:
        """Gives the process a command."""

    def release(self, number: int) -> None:
        """Ends the stream of this number."""


class Handle:
    """One stream of a model process.

    `changed` is set with every new result; whoever waits for it clears it.
    """

    def __init__(self, process: Process, number: int, config: StreamConfig):
        self.process, self.number = process, number
        self.byte_rate = SAMPLE_BYTES[config.encoding] * config.sample_rate
        self.partial = Partial("")
        self.finals: deque[Final] = deque()
        self.ends: deque[StreamEnd] = deque()
        self.left_out = 0  # words of segments without a result
        self.failed: str | None = None
        self.changed = asyncio.Event()
        self.on_failure: Callable[[], None] = lambda: None
        self.fed = self.processed = 0.0  # seconds of sound sent to the model, and processed by it
        self.ending: deque[float] = deque()  # of the client's resets, and of the end, that have not been taken yet

    @property
    def backlog(self) -> float:
        """Seconds of sound that wait for the model."""
        return max(0.0, self.fed - self.processed)

    def feed(self, data: bytes) -> None:
        """Sends sound, as bytes of the encoding that the stream was opened with."""
        self.fed += len(data) / self.byte_rate
        self.process.send(Sound(self.number, data))

    def end(self, last: bool = True) -> None:
        """Ends the stream, or (not `last`) resets it."""
        self.ending.append(time.monotonic())
        self.process.send(End(self.number, last))

    def ask(self, alternatives: int) -> None:
        """How many different texts the next final results hold at most."""
        self.process.send(Alternatives(self.number, alternatives))

    def close(self) -> None:
        """Tells the model process that nobody waits for results any more."""
        self.process.release(self.number)

    def take(self, event: Event) -> None:
        """Stores an event of the model process."""
        if isinstance(event, Partial):
            self.partial = event
        elif isinstance(event, Final):
            self.finals.append(event)
            self.partial = Partial("")
        elif isinstance(event, LeftOut):
            self.left_out += event.words
        elif isinstance(event, StreamEnd):
            self.ends.append(event)
            self.partial = Partial("")
        elif self.failed is None:
            self.failed = event.reason
            self.on_failure()
            self.process.metrics.failures.inc()

    def take_end(self) -> StreamEnd:
        """The next reset, or the end; the metrics count how long the client waited for it."""
        self.process.metrics.latency.observe(time.monotonic() - self.ending.popleft())
        return self.ends.popleft()

    async def change(self) -> None:
        """Waits for the next change."""
        await self.changed.wait()
        self.changed.clear()
