"""Batch Dispatch (Deep Speech 2, section 7.1): chunks of many streams become batches of the model.

    add   stream a: [chunk][chunk]          take: at most one chunk of each stream, those that have waited longest
          stream b: [chunk]          ---->        first, all of one shape; a stream served goes behind the others
          stream c: [chunk][chunk]

The core knows no sockets, no threads and no clock: the caller says what time it is.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

Payload = TypeVar("Payload")


class Policy(Protocol):
    """When to run a batch, and how large."""

    def size(self, ready: int, oldest: float, now: float) -> int:
        """How many of the `ready` chunks (1 or more) to run now, 0 to wait; `oldest`: when the first of them came."""

    def wake(self, oldest: float) -> float:
        """When `size` would stop waiting, though nothing more came (seconds, on the caller's clock)."""


@dataclass(frozen=True)
class Eager:
    """The paper's: whatever is ready, at once, up to `most`; it never waits for a batch to fill."""

    most: int = 64

    def size(self, ready: int, oldest: float, now: float) -> int:
        return min(ready, self.most)

    def wake(self, oldest: float) -> float:
        return oldest


@dataclass(frozen=True)
class OneByOne:
    """No batches: each chunk by itself."""

    def size(self, ready: int, oldest: float, now: float) -> int:
        return 1

    def wake(self, oldest: float) -> float:
        return oldest


@dataclass(frozen=True)
class WaitToFill:
    """Waits until `most` chunks are ready or the first has waited for `timeout` seconds."""

    most: int = 64
    timeout: float = 0.05

    def size(self, ready: int, oldest: float, now: float) -> int:
        return min(ready, self.most) if ready >= self.most or now >= self.wake(oldest) else 0

    def wake(self, oldest: float) -> float:
        return oldest + self.timeout


@dataclass(frozen=True)
class DispatchConfig:
    """How chunks become batches."""

    policy: Literal["eager", "one-by-one", "wait-to-fill"] = "eager"  # the others are there to be compared with
    batch: int = 64  # streams in one step at most
    timeout: float = 0.05  # seconds; wait-to-fill
    bound: int = 1000  # chunks that may wait of one stream

    def make(self) -> Policy:
        if self.policy == "eager":
            return Eager(self.batch)
        return OneByOne() if self.policy == "one-by-one" else WaitToFill(self.batch, self.timeout)


class Full(Exception):
    """A stream has more chunks waiting than it may."""


@dataclass(frozen=True)
class Work(Generic[Payload]):
    """One chunk of one stream."""

    stream: int
    shape: int  # only chunks of one shape make a batch
    payload: Payload
    arrived: float  # seconds


class Dispatcher(Generic[Payload]):
    """The chunks that wait."""

    def __init__(self, policy: Policy, bound: int = 1000):
        """`bound`: chunks that may wait of one stream."""
        self.policy = policy
        self.bound = bound
        self.waiting: OrderedDict[int, deque[Work[Payload]]] = OrderedDict()  # next in turn first

    def __len__(self) -> int:
        return sum(map(len, self.waiting.values()))

    def add(self, work: Work[Payload]) -> None:
        """Raises:
        Full: the stream's bound is reached; the chunk is not taken.
        """
        queue = self.waiting.setdefault(work.stream, deque())
        if len(queue) >= self.bound:
            raise Full(f"{self.bound} chunks of this stream are waiting")
        queue.append(work)

    def drop(self, stream: int) -> None:
        """Forgets all chunks of a stream."""
        self.waiting.pop(stream, None)

    def take(self, now: float) -> list[Work[Payload]]:
        """The batch to run now; empty: none yet."""
        ready = self._ready()
        size = self.policy.size(len(ready), ready[0].arrived, now) if ready else 0
        for work in (batch := ready[:size]):
            queue = self.waiting.pop(work.stream)
            queue.popleft()
            if queue:
                self.waiting[work.stream] = queue
        return batch

    def wake(self) -> float | None:
        """When to ask again though nothing came (seconds); None: nothing waits."""
        ready = self._ready()
        return self.policy.wake(ready[0].arrived) if ready else None

    def _ready(self) -> list[Work[Payload]]:
        """The first chunk of each stream, in turn, of the shape of the very first."""
        heads = [queue[0] for queue in self.waiting.values()]
        return [work for work in heads if work.shape == heads[0].shape]
