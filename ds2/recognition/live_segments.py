"""The log-probabilities of one stream -> its segments: where each begins and ends, and what is found in it.

labels     ...x.x..xx.x................x.xx....x......
looks      |   |   |   |   |   |   |   |   |   |   |      at the same frames, however the sound was cut
segment    [-----------------------][-----------------     a pause ends one; the next begins at once
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.greedy import collapse
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.model.config import ModelConfig
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.offline_segments import holds_speech
from ds2.text import BLANK

LONGEST_SILENCE = 30.0  # seconds without speech after which the search begins anew
NOTHING_NEW = 0.98  # frames with a more probable blank do not change the partial result


class Search(Protocol):
    """The search of one segment."""

    def step(self, rows: np.ndarray) -> None:
        """(T, V) log-probabilities of the next frames."""

    def partial(self) -> Hypothesis:
        """The best hypothesis so far."""

    def finish(self) -> list[Hypothesis]:
        """The hypotheses of the whole segment, best first."""


S = TypeVar("S", bound=Search)


@dataclass(frozen=True)
class LiveSegment:
    """What lies between two pauses."""

    hypotheses: list[Hypothesis]  # best first
    rows: list[np.ndarray]  # its log-probabilities in order, (k, outputs that are kept) each; none without any
    start: float  # seconds
    duration: float  # seconds


class LiveSegments(Generic[S]):
    """Finds segments: `step` takes log-probabilities, `finish` ends the stream; both give what has ended."""

    search: S  # of the present segment
    rows: list[np.ndarray]  # its log-probabilities, where they are kept
    spoken: tuple[int, int] | None  # its first and last frame with speech
    news: bool  # whether it has frames that may change `partial`, since that was asked for

    def __init__(
        self,
        begin: Callable[[], S],
        model: ModelConfig,
        config: LiveConfig,
        unspoken: Sequence[int],
        start: float = 0.0,
        endpoints: bool = True,
        keeps: int = 0,
    ):
        """A stream without frames yet.

        Args:
            begin: gives the search of a segment.
            unspoken: outputs, see `Tokenizer.unspoken`.
            start: seconds, where times count from another place than the first sample.
            endpoints: whether pauses end segments.
            keeps: the first outputs, of which segments hold the log-probabilities.
        """
        self.begin, self.config, self.start = begin, config, start
        self.unspoken, self.endpoints, self.keeps = unspoken, endpoints, keeps
        steps, self.frame_seconds = config.steps(model), model.frame_seconds
        self.between_looks, self.delay = steps.least_frames // steps.stride, steps.delay  # output frames
        self.frames = 0
        self._begin_segment()

    def step(self, rows: np.ndarray) -> list[LiveSegment]:
        """(T, V) log-probabilities of the next frames -> the segments that pauses in them have ended."""
        found = []
        while len(rows):
            count = self.between_looks - (self.frames + self.delay) % self.between_looks
            self._hear(rows[:count])
            # Fewer rows than that do not reach the next look for a pause.
            if len(rows) >= count and self.endpoints and self._pause_ends():
                found.append(self._end_segment((self.frames - self.first) * self.frame_seconds))
            rows = rows[count:]
        return found

    def finish(self, end: float) -> LiveSegment:
        """The last segment of a stream whose sound ends at so many seconds."""
        return self._end_segment(end - self._segment_start)

    def partial(self) -> Hypothesis:
        """The best hypothesis of the present segment so far: empty until a frame holds speech."""
        self.news = False
        return self.search.partial() if self.spoken is not None else Hypothesis()

    def _hear(self, rows: np.ndarray) -> None:
        self.search.step(rows)
        if self.keeps:
            self.rows.append(rows[:, : self.keeps].copy())
        # Frames of certain blanks change no text; those with speech are what pauses are measured from.
        self.news |= bool(np.exp(rows[:, BLANK].min()) < NOTHING_NEW)
        spoken = self.frames + np.flatnonzero(holds_speech(rows, self.unspoken))
        if len(spoken):
            self.spoken = int(spoken[0]) if self.spoken is None else self.spoken[0], int(spoken[-1])
        self.frames += len(rows)

    def _pause_ends(self) -> bool:
        config, second = self.config, 1 / self.frame_seconds
        if self.spoken is None:
            return self.frames - self.first > LONGEST_SILENCE * second
        if self.frames - self.first < config.least_segment_seconds * second:
            return False
        first, last = self.spoken
        is_long = self.frames - first > config.long_segment_seconds * second  # without the silence before it
        pause = config.short_pause_seconds if is_long else config.pause_seconds
        return self.frames - 1 - last >= pause * second

    @property
    def _segment_start(self) -> float:
        return self.start + self.first * self.frame_seconds

    def _end_segment(self, duration: float) -> LiveSegment:
        ended = LiveSegment(self.search.finish(), self.rows, self._segment_start, duration)
        self._begin_segment()
        return ended

    def _begin_segment(self) -> None:
        self.search, self.rows, self.first = self.begin(), [], self.frames
        self.spoken, self.news = None, False


class BeamSearch:
    """A prefix beam search of one segment."""

    def __init__(self, decoder: BeamDecoder | PronouncingDecoder):
        self.decoder, self.stream = decoder, decoder.begin()

    def step(self, rows: np.ndarray) -> None:
        """See `Search`."""
        self.decoder.step([self.stream], [rows])

    def partial(self) -> Hypothesis:
        """See `Search`."""
        return self.decoder.partial(self.stream)

    def stable(self) -> int:
        """How many tokens of the partial hypothesis later frames cannot change."""
        return self.decoder.stable(self.stream)

    def finish(self) -> list[Hypothesis]:
        """See `Search`."""
        return self.decoder.finish(self.stream)


class GreedySearch:
    """The best path of one segment."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.scores: list[float] = []

    def step(self, rows: np.ndarray) -> None:
        """See `Search`."""
        self.path += rows.argmax(1).tolist()
        self.scores += rows.max(1).tolist()

    def partial(self) -> Hypothesis:
        """See `Search`."""
        return collapse(self.path, self.scores)

    def finish(self) -> list[Hypothesis]:
        """See `Search`."""
        return [self.partial()]
