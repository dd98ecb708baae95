"""Recordings on their way through the recognizer: which, in which windows, and what came of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ds2.data.manifest import Segment
from ds2.utils.errors import InputError


@dataclass(frozen=True)
class Window:
    """Samples for one pass of the model, and which of its output frames count (None: to the end)."""

    samples: Tensor
    first_frame: int = 0
    last_frame: int | None = None


@dataclass
class Job:
    """One recording on its way: the log-probabilities of its windows in order, or what went wrong."""

    segment: Segment
    duration: float = 0.0
    parts: list[Tensor | None] = field(default_factory=list)
    read: bool = False  # all its windows have been cut
    error: InputError | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or (self.read and all(part is not None for part in self.parts))

    @property
    def result(self) -> "Result":
        """Once it is done: the segment, its duration, and (T, V) of the whole recording or what went wrong."""
        return self.segment, self.duration, self.error or torch.cat([part for part in self.parts if part is not None])


Result = tuple[Segment, float, Tensor | InputError]  # duration in seconds; (T, V) log-probabilities


def padded_groups(results: Iterable[Result], seconds: float) -> Iterator[list[Result]]:
    """Neighbours that take up to `seconds` when all are padded to the longest; a longer one comes alone."""
    group: list[Result] = []
    longest = 0.0
    for result in results:
        longest = max(longest, result[1])
        if group and (len(group) + 1) * longest > seconds:
            yield group
            group, longest = [], result[1]
        group.append(result)
        if longest >= seconds:
            yield group
            group, longest = [], 0.0
    if group:
        yield group
