"""One live stream: bytes of sound -> chunks of samples -> (the model) -> beam -> partial and final results.

    bytes -> samples -> the model's rate -> | span: sound up to an end or a reset | -> chunks -> log_probs
                                                                                              -> beam -> Partial, Final

A span is one stream of the model and ends with its last frames. Within a span, pauses end utterances; each utterance
has its own beam. All times are seconds from the start of the stream.
"""

import functools
from collections import deque
from dataclasses import dataclass

import numpy as np
import soxr

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.model.config import UNENDED
from ds2.recognition.decoding import with_hot
from ds2.recognition.engine import Slots
from ds2.recognition.finish import Finisher
from ds2.recognition.options import hot_words
from ds2.recognition.pieces import SPEECH
from ds2.serve.live_config import LiveConfig
from ds2.serve.messages import SAMPLE_BYTES, Encoding, Event, Final, Partial, SpanEnd, StreamConfig
from ds2.text import BLANK
from ds2.utils.errors import InputError

ALTERNATIVES = 10  # hypotheses of an utterance; clients get those with different texts
LONGEST_SILENCE = 30.0  # seconds without a label after which the search begins anew
NOTHING_NEW = 0.98  # frames with a more probable blank do not change the partial result


@dataclass(frozen=True)
class Setup:
    """The model, search and configuration that all streams of a worker share."""

    model: Slots
    beam: BeamDecoder | PronouncingDecoder
    finish: Finisher
    config: LiveConfig
    competitors: int = 0  # hypotheses that the confidence of the best one's words is computed from

    @functools.cached_property
    def chunk_frames(self) -> int:
        return self.model.config.step_frames(self.config.chunk_frames)

    @functools.cached_property
    def long_chunk_frames(self) -> int:
        return self.model.config.step_frames(self.config.long_chunk_frames)

    @functools.cached_property
    def rows_at_once(self) -> int:
        """Output frames that are searched before the next look for a pause."""
        return -(-self.config.chunk_frames // self.model.stride)

    @functools.cached_property
    def frame_seconds(self) -> float:
        """Duration of an output frame."""
        return self.model.config.frame_seconds


@dataclass(frozen=True)
class Chunk:
    """One step of one stream."""

    samples: np.ndarray
    position: int  # front-end frames before it
    length: int  # frames of the whole span; UNENDED until it is known


class Span:
    """Sound for one stream of the model, cut into chunks."""

    def __init__(self, setup: Setup, start: float):
        self.setup, self.start = setup, start  # seconds
        self.waiting = np.zeros(0, np.float32)  # samples from the frame at `position` on
        self.position = self.advanced = 0  # frames cut into chunks; frames of which the log_probs have come
        self.received = 0  # samples
        self.length = UNENDED  # frames
        self.last = False

    @property
    def ended(self) -> bool:
        return self.length != UNENDED

    @property
    def frames(self) -> int:
        """Front-end frames after which the model has returned all log_probs; some lie beyond the end."""
        model = self.setup.model
        return (model.outputs(self.length) + model.delay) * model.stride if self.length else 0

    @property
    def done(self) -> bool:
        """Whether all log_probs of the span have come."""
        return self.ended and self.advanced >= self.frames

    def feed(self, samples: np.ndarray) -> None:
        self.waiting = np.concatenate([self.waiting, samples])
        self.received += len(samples)

    def end(self, last: bool) -> None:
        self.last = last
        window = self.setup.model.overlap + self.setup.model.hop
        self.length = max(1, (self.received - window) // self.setup.model.hop + 1) if self.received else 0

    def chunks(self) -> list[Chunk]:
        """The chunks that are ready; after the end, all remaining ones."""
        return list(iter(self._chunk, None))

    def _chunk(self) -> Chunk | None:
        model = self.setup.model
        needed = self.frames - self.position if self.ended else 0
        size = model.samples(frames := self._frames(needed))
        if self.ended:
            if needed <= 0:
                return None
            self.waiting = np.pad(self.waiting, (0, max(0, size - len(self.waiting))))
        if len(self.waiting) < size:
            return None
        chunk = Chunk(self.waiting[:size], self.position, self.length)
        self.waiting = self.waiting[frames * model.hop :]
        self.position += frames
        return chunk

    def _frames(self, needed: int) -> int:
        """Front-end frames of the next chunk, of an ended span with `needed` ones left."""
        setup, piece = self.setup, self.setup.rows_at_once * self.setup.model.stride
        if needed > setup.chunk_frames or len(self.waiting) >= setup.model.samples(setup.long_chunk_frames):
            return setup.long_chunk_frames
        if self.ended and setup.model.config.chunk:  # its last chunk may be shorter
            return min(setup.chunk_frames, -(-needed // piece) * piece)
        return setup.chunk_frames

    def advance(self, chunk: Chunk, log_probs: np.ndarray) -> np.ndarray:
        """Takes the log_probs (k, V) of the next chunk and returns the rows that lie within the span."""
        model = self.setup.model
        self.advanced += (len(chunk.samples) - model.overlap) // model.hop
        first = chunk.position // model.stride - model.delay
        return log_probs[max(0, -first) : max(0, model.outputs(chunk.length) - first)]


class LiveStream:
    """A stream from its first byte to its last result."""

    labels: tuple[int, int] | None  # frames of the utterance's first and last label, in the span
    behind: bool  # whether there are frames that no partial result shows yet

    def __init__(self, setup: Setup, config: StreamConfig):
        self.setup, self.config = setup, config
        self.beam = with_hot(setup.beam, setup.finish.tokenizer, hot_words(config.hot)) if config.hot else setup.beam
        self.rate = setup.model.config.frontend.sample_rate
        self.cut = b""  # the first bytes of an incomplete sample
        self.spans = deque([Span(setup, 0.0)])
        self.resampler = self._resampler()
        self._begin_utterance(0)
        self.frames = 0  # decoded output frames of the current span
        self.shown, self.shown_at = "", float("-inf")

    def feed(self, data: bytes) -> list[Chunk]:
        """Takes sound and returns the chunks that are ready.

        Raises:
            InputError: a sample is not finite.
        """
        data = self.cut + data
        whole = len(data) // SAMPLE_BYTES[self.config.encoding] * SAMPLE_BYTES[self.config.encoding]
        self.cut = data[whole:]
        self._add(decode(data[:whole], self.config.encoding), False)
        return self.spans[-1].chunks()

    def end(self, last: bool = True) -> list[Chunk]:
        """Ends the span and returns its remaining chunks; unless it is the `last`, a new span begins."""
        self._add(np.zeros(0, np.float32), True)
        self.cut = b""
        span = self.spans[-1]
        span.end(last)
        chunks = span.chunks()
        if not last:
            self.spans.append(Span(self.setup, span.start + span.received / self.rate))
            self.resampler = self._resampler()
        return chunks

    def ends(self) -> list[Event]:
        """The ends of spans that are done already, for example because they had no sound."""
        events: list[Event] = []
        while self.spans and self.spans[0].done:
            events += self._end_span()
        return events

    def advance(self, chunk: Chunk, log_probs: np.ndarray, now: float) -> list[Event]:
        """Takes the model's log_probs (k, V) of the next chunk; `now` in seconds."""
        rows = self.spans[0].advance(chunk, log_probs)
        starts, size = range(0, len(rows), self.setup.rows_at_once), self.setup.rows_at_once
        events = [event for start in starts for event in self._decoded(rows[start : start + size])]
        return events + self._partial_if_due(now) + self.ends()

    def _decoded(self, rows: np.ndarray) -> list[Event]:
        """Searches some of a chunk's rows: so few that no pause within them ends an utterance."""
        self.beam.step([self.search], [rows])
        self.frames += len(rows)
        if self.setup.finish.judge is not None:
            self.rows.append(rows.copy())
        blank = np.exp(rows[:, BLANK])
        self.behind |= bool(blank.min() < NOTHING_NEW)
        labels = (blank < SPEECH).nonzero()[0]
        if len(labels):
            first, last = (self.frames - len(rows) + int(labels[place]) for place in (0, -1))
            self.labels = first if self.labels is None else self.labels[0], last
        return self._finish_utterance() if self._pause_ends() else []

    def _pause_ends(self) -> bool:
        if not self.config.endpoints:
            return False
        config, second = self.setup.config, 1 / self.setup.frame_seconds
        if self.labels is None:
            return self.frames - self.utterance_start > LONGEST_SILENCE * second
        first, last = self.labels
        is_long = self.frames - first > config.long_utterance_seconds * second  # without the silence before it
        pause = config.short_pause_seconds if is_long else config.pause_seconds
        return self.frames - 1 - last >= pause * second

    def _partial_if_due(self, now: float) -> list[Event]:
        if not self.behind or now - self.shown_at < self.setup.config.partial_interval_seconds:
            return []
        self.behind = False
        hypothesis = self.beam.partial(self.search)
        text = self.setup.finish.tokenizer.decode(hypothesis.tokens).strip()
        if text == self.shown:
            return []
        self.shown, self.shown_at = text, now
        stable = 0
        if self.config.stable:
            certain = hypothesis.tokens[: self.beam.stable(self.search)]
            stable = len(self.setup.finish.tokenizer.decode(certain).lstrip())
        return [Partial(text, stable)]

    def _finish_utterance(self) -> list[Event]:
        """The final result of the utterance, or no event if it has no words."""
        seconds = self.setup.frame_seconds
        start = self.spans[0].start + self.utterance_start * seconds
        duration = (self.frames - self.utterance_start) * seconds
        finish, hypotheses = self.setup.finish, self.beam.finish(self.search)
        best = finish(hypotheses[: 1 + self.setup.competitors], self.rows, duration, start)
        found = {best.text: (best, hypotheses[0].score)}  # by text: some hypotheses differ in a space at an end
        for hypothesis in hypotheses[1:ALTERNATIVES]:
            transcript = finish([hypothesis], [], duration, start)
            found.setdefault(transcript.text, (transcript, hypothesis.score))
        self._begin_utterance(self.frames)
        return [Final(best, tuple(found.values()), start)] if best.text else []

    def _begin_utterance(self, frame: int) -> None:
        self.search = self.beam.begin()
        self.rows: list[np.ndarray] = []  # (k, V) log-probabilities of the utterance, for a judge
        self.utterance_start = frame  # of the span
        self.labels, self.behind, self.shown = None, False, ""

    def _end_span(self) -> list[Event]:
        events = self._finish_utterance()
        span = self.spans.popleft()
        self.frames = 0
        self._begin_utterance(0)
        return [*events, SpanEnd(span.last)]

    def _add(self, samples: np.ndarray, last: bool) -> None:
        if self.resampler is not None:
            samples = self.resampler.resample_chunk(samples, last=last)
        self.spans[-1].feed(samples)

    def _resampler(self) -> "soxr.ResampleStream | None":
        if self.config.sample_rate == self.rate:
            return None
        return soxr.ResampleStream(self.config.sample_rate, self.rate, 1, dtype="float32")


def decode(data: bytes, encoding: Encoding) -> np.ndarray:
    """Bytes of whole little-endian samples -> (N,) float32 samples, full scale 1.0.

    Raises:
        InputError: a float32 sample is not finite.
    """
    if encoding == "pcm16":
        return np.frombuffer(data, "<i2").astype(np.float32) / 32768
    if encoding == "mulaw":
        return MULAW[np.frombuffer(data, np.uint8)]
    samples = np.frombuffer(data, "<f4").astype(np.float32)
    if not np.isfinite(samples).all():
        raise InputError("a float32 sample is NaN or infinite; send finite samples, full scale 1.0")
    return samples


def _mulaw_table() -> np.ndarray:
    """ITU-T G.711: the inverted byte is sign, three bits of exponent, four of mantissa."""
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = ((((code & 15).astype(np.int32) << 3) + 132) << ((code >> 4) & 7)) - 132
    return np.where(code & 128, -magnitude, magnitude).astype(np.float32) / 32768


MULAW = _mulaw_table()
