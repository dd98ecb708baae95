"""Batch Dispatch (Deep Speech 2, section 7.1): chunks of many streams become batches of the model.

    add   stream a: [chunk][chunk]          take: at most one chunk of each stream, the longest waiting
          stream b: [chunk]          ---->        first, all of one shape; a served stream goes to the end
          stream c: [chunk][chunk]

This module has no sockets, no threads and no clock: the caller passes the time.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Payload = TypeVar("Payload")


class Policy(Protocol):
    """When to run a batch, and how large. The server has one policy; benchmarks/wait_to_fill.py has its competitor."""

    def size(self, ready: int, oldest: float, now: float) -> int:
        """How many of the `ready` chunks (at least 1) to run now, 0 to wait; `oldest`: when the first of them came."""

    def wake(self, oldest: float) -> float:
        """When `size` stops waiting even if no more chunks come (seconds on the caller's clock)."""


@dataclass(frozen=True)
class Eager:
    """The policy of the paper: run all chunks that are ready, up to `most`, and never wait for a batch to fill."""

    most: int = 64

    def size(self, ready: int, oldest: float, now: float) -> int:
        """How many of the ready chunks run now."""
        return min(ready, self.most)

    def wake(self, oldest: float) -> float:
        """When to look again: at once."""
        return oldest


@dataclass(frozen=True)
class DispatchConfig:
    """How chunks become batches."""

    batch_streams: int = 64  # at most, in one step
    queue_chunks: int = 1000  # of one stream that may wait

    def make(self) -> Policy:
        """The policy with these numbers."""
        return Eager(self.batch_streams)


class Full(Exception):
    """As many chunks of a stream wait as are allowed."""


@dataclass(frozen=True)
class Work(Generic[Payload]):
    """One chunk of one stream."""

    stream: int
    shape: int  # only chunks of one shape make a batch
    payload: Payload
    arrived: float  # seconds


class Dispatcher(Generic[Payload]):
    """The queue of waiting chunks."""

    def __init__(self, policy: Policy, bound: int = 1000):
        """`bound`: how many chunks of one stream may wait."""
        self.policy = policy
        self.bound = bound
        self.waiting: OrderedDict[int, deque[Work[Payload]]] = OrderedDict()  # next in turn first

    def __len__(self) -> int:
        return sum(map(len, self.waiting.values()))

    def add(self, work: Work[Payload]) -> None:
        """Adds a chunk to the queue of its stream.

        Raises:
            Full: the queue of this stream is full; the chunk is not added.
        """
        queue = self.waiting.setdefault(work.stream, deque())
        if len(queue) >= self.bound:
            raise Full(f"{self.bound} chunks of this stream are waiting")
        queue.append(work)

    def drop(self, stream: int) -> None:
        """Removes all chunks of a stream."""
        self.waiting.pop(stream, None)

    def take(self, now: float) -> list[Work[Payload]]:
        """The batch to run now; empty where there is none yet."""
        ready = self._ready()
        size = self.policy.size(len(ready), ready[0].arrived, now) if ready else 0
        for work in (batch := ready[:size]):
            queue = self.waiting.pop(work.stream)
            queue.popleft()
            if queue:
                self.waiting[work.stream] = queue
        return batch

    def wake(self) -> float | None:
        """When to call `take` again even if no chunk comes (seconds); None if no chunk waits."""
        ready = self._ready()
        return self.policy.wake(ready[0].arrived) if ready else None

    def _ready(self) -> list[Work[Payload]]:
        """The first chunk of each stream, in turn, if it has the shape of the very first."""
        heads = [queue[0] for queue in self.waiting.values()]
        return [work for work in heads if work.shape == heads[0].shape]
