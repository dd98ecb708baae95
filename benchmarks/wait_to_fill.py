"""The batching policy that benchmarks/serve.py compares Batch Dispatch with: wait until a batch is full."""

from dataclasses import dataclass

from ds2.serve.dispatch import DispatchConfig, Policy


@dataclass(frozen=True)
class WaitToFill:
    """Waits until `most` chunks are ready or the first of them has waited for `timeout` seconds."""

    most: int = 64
    timeout: float = 0.05

    def size(self, ready: int, oldest: float, now: float) -> int:
        return min(ready, self.most) if ready >= self.most or now >= self.wake(oldest) else 0

    def wake(self, oldest: float) -> float:
        return oldest + self.timeout


@dataclass(frozen=True)
class WaitToFillConfig(DispatchConfig):
    """A configuration of the dispatcher with this policy."""

    timeout_seconds: float = 0.05

    def make(self) -> Policy:
        return WaitToFill(self.batch_streams, self.timeout_seconds)
