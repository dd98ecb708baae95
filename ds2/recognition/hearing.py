"""A recording as it is heard: segments are searched as soon as enough of them have ended.

The outputs of an hour of sound may take a gigabyte, which nobody needs at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ds2.recognition.offline_segments import LogProbSegment, PauseCutter
from ds2.recognition.transcript import Transcript

SEARCHED_SECONDS = 60.0  # of segments that are searched together; a second's outputs may take 0.2 MB

Hear = Callable[[Iterable[LogProbSegment]], Iterator[Transcript]]


class Hearing:
    """`step` takes log-probabilities; what `waiting` holds after `finish` has not been searched yet."""

    def __init__(self, duration: float, frame_seconds: float, unspoken: Sequence[int], hear: Hear):
        """Like `PauseCutter`; `hear`: segments -> what is heard in each."""
        self.cutter, self.hear = PauseCutter(duration, frame_seconds, unspoken), hear
        self.waiting: list[LogProbSegment] = []
        self.heard: list[Transcript] = []  # before what is waiting

    def step(self, log_probs: np.ndarray) -> None:
        """Takes the next (T, V) log-probabilities."""
        self.waiting += self.cutter.step(log_probs)
        if sum(segment.duration for segment in self.waiting) >= SEARCHED_SECONDS:
            self.heard += self.hear(self.waiting)
            self.waiting = []

    def finish(self) -> "Hearing":
        """The recording has ended."""
        self.waiting.append(self.cutter.finish())
        return self
