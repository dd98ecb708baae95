"""One live stream: bytes of sound -> chunks of samples -> (the model) -> beam -> partial and final results.

    bytes -> samples -> the model's rate -> | ModelStream: up to a reset or the end | -> chunks -> log_probs
                                                                                        -> segments -> Partial, Final

The final result of a segment takes as long as many chunks: it waits until the worker calls `conclude`, and what comes
after it in this stream waits behind it. A stream of the model ends with its last frames; after a reset another begins.
`ds2/recognition` cuts it into chunks and finds its segments. All times are seconds from the start of the client's.
"""

import functools
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.model.steps import Steps
from ds2.recognition.audio_inputs import StreamResampler
from ds2.recognition.chunks import Chunk, Chunks
from ds2.recognition.engine import Slots
from ds2.recognition.hot_spelling import hot_spelt_by
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.live_segments import BeamSearch, LiveSegment, LiveSegments
from ds2.recognition.offline_segments import LEAST_SECONDS, PAUSE_SECONDS
from ds2.recognition.options import hot_words
from ds2.recognition.stream_hot_words import unknown_hot, with_hot
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.serve.messages import SAMPLE_BYTES, Event, Final, LeftOut, Partial, StreamConfig, StreamEnd
from ds2.serve.sample_encodings import decode_samples

ALTERNATIVES = 10  # hypotheses of a segment; clients that ask for alternatives get those with different texts


@dataclass(frozen=True)
class Setup:
    """The model, search and configuration that all streams of a worker share."""

    model: Slots
    beam: BeamDecoder | PronouncingDecoder
    builder: TranscriptBuilder
    config: LiveConfig
    competitors: int = 0  # hypotheses that the confidence of the best one's words is computed from

    @functools.cached_property
    def of_recordings(self) -> LiveConfig:
        """The same with segments as long as those of a recording, see `PauseCutter`."""
        return replace(self.config, pause_seconds=PAUSE_SECONDS, least_segment_seconds=LEAST_SECONDS)

    @functools.cached_property
    def steps(self) -> Steps:
        """The steps of a stream through the model."""
        return self.config.steps(self.model.config)


@dataclass
class ModelStream:
    """One stream of the model: the sound of a client up to a reset or the end."""

    chunks: Chunks
    segments: LiveSegments[BeamSearch]
    start: float  # seconds
    pending: int = 0  # chunks whose log_probs have not come
    ended: bool = False
    last: bool = False

    @property
    def done(self) -> bool:
        """Whether all log_probs have come."""
        return self.ended and not self.pending


class ClientStream:
    """A client's stream, from its first byte to its last result."""

    def __init__(self, setup: Setup, config: StreamConfig):
        self.setup, self.config, self.builder = setup, config, setup.builder.with_forms_of(config.hot)
        self.beam, self.unknown_hot = setup.beam, tuple[str, ...]()
        if config.hot:
            tokenizer = setup.builder.tokenizer
            search = setup.beam, tokenizer, hot_spelt_by(tokenizer, hot_words(config.hot))
            self.beam, self.unknown_hot = with_hot(*search), unknown_hot(*search)
        self.alternatives = config.alternatives
        self.rate = setup.model.config.frontend.sample_rate
        self.cut = b""  # the first bytes of an incomplete sample
        self.model_streams: deque[ModelStream] = deque()
        self._begin_model_stream(0.0)
        self.shown, self.shown_at = "", float("-inf")
        self.results: deque[LiveSegment | Event] = deque()  # in order; a segment first, if any

    def feed(self, data: bytes) -> list[Chunk]:
        """Takes sound and returns the chunks that are ready.

        Raises:
            InputError: a sample is not finite.
        """
        data = self.cut + data
        whole = len(data) // SAMPLE_BYTES[self.config.encoding] * SAMPLE_BYTES[self.config.encoding]
        self.cut = data[whole:]
        return self._chunks(self.resampler(decode_samples(data[:whole], self.config.encoding), False))

    def end(self, last: bool = True) -> list[Chunk]:
        """Ends the stream, or (not `last`) resets it; returns the remaining chunks."""
        model_stream = self.model_streams[-1]
        chunks = self._chunks(self.resampler(np.zeros(0, np.float32), True))
        rest = model_stream.chunks.finish()
        model_stream.pending += len(rest)
        model_stream.ended, model_stream.last, self.cut = True, last, b""
        if not last:
            self._begin_model_stream(self._end_of(model_stream))
        return chunks + rest

    def ends(self) -> list[Event]:
        """The resets, and the end, that need no step more, for example because there was no sound."""
        while self.model_streams and self.model_streams[0].done:
            model_stream = self.model_streams.popleft()
            self._keep([model_stream.segments.finish(self._end_of(model_stream))])
            self.results.append(StreamEnd(model_stream.last))
        return self._ready()

    def advance(self, chunk: Chunk, log_probs: np.ndarray, now: float) -> list[Event]:
        """Takes the model's log_probs (k, V) of the next chunk; `now` in seconds."""
        model_stream = self.model_streams[0]
        model_stream.pending -= 1
        self._keep(model_stream.segments.step(log_probs[chunk.rows]))
        self.results += self._partial_if_due(model_stream.segments, now)
        return self.ends()

    def conclude(self) -> list[Event]:
        """The final result of the first segment that waits for it, unless it has no words, and what came after it."""
        segment = self.results.popleft()
        assert isinstance(segment, LiveSegment)
        final = self._final(segment)
        left_out = [LeftOut(final.transcript.dropped)] if final.transcript.dropped else []
        return [*([final] if final.transcript.text else left_out), *self._ready()]

    @property
    def over(self) -> bool:
        """Whether all results have come."""
        return not (self.model_streams or self.results)

    def _ready(self) -> list[Event]:
        """The events before the next segment that waits."""
        events: list[Event] = []
        while self.results and not isinstance(event := self.results[0], LiveSegment):
            events.append(event)
            self.results.popleft()
        return events

    def _chunks(self, samples: np.ndarray) -> list[Chunk]:
        model_stream = self.model_streams[-1]
        chunks = model_stream.chunks.step(samples)
        model_stream.pending += len(chunks)
        return chunks

    def _partial_if_due(self, segments: LiveSegments[BeamSearch], now: float) -> list[Event]:
        if not segments.news or now - self.shown_at < self.setup.config.partial_interval_seconds:
            return []
        hypothesis = segments.partial()
        text = self.setup.builder.tokenizer.decode(hypothesis.tokens).strip()
        if text == self.shown:
            return []
        self.shown, self.shown_at = text, now
        stable = 0
        if self.config.stable:
            certain = hypothesis.tokens[: segments.search.stable()]
            stable = len(self.setup.builder.tokenizer.decode(certain).lstrip())
        return [Partial(text, stable)]

    def _keep(self, segments: list[LiveSegment]) -> None:
        """Segments wait for their final results."""
        if segments:
            self.shown = ""
        self.results += segments

    def _final(self, segment: LiveSegment) -> Final:
        builder = self.builder
        [hypotheses] = builder.rescored([segment.hypotheses])
        times = segment.duration, segment.start
        best = builder(hypotheses[: 1 + self.setup.competitors], segment.rows, *times)
        found = {best.text: (best, hypotheses[0].score)}  # by text: some hypotheses differ in a space at an end
        for hypothesis in hypotheses[1:ALTERNATIVES]:
            if len(found) >= self.alternatives:  # each takes as long as the best one, and few clients ask for any
                break
            transcript = builder([hypothesis], [], *times)
            found.setdefault(transcript.text, (transcript, hypothesis.score))
        unknown, self.unknown_hot = self.unknown_hot, ()  # said once
        return Final(best, tuple(found.values()), segment.start, unknown)

    def _begin_model_stream(self, start: float) -> None:
        setup = self.setup
        segments = LiveSegments(
            functools.partial(BeamSearch, self.beam),
            setup.model.config,
            setup.of_recordings if self.config.patient else setup.config,
            setup.builder.tokenizer.unspoken,
            start,
            self.config.endpoints,
            keeps=setup.builder.judged_outputs,
        )
        self.model_streams.append(ModelStream(Chunks(setup.steps), segments, start))
        self.resampler = StreamResampler(self.config.sample_rate, self.rate)

    def _end_of(self, model_stream: ModelStream) -> float:
        """Seconds from the start of the stream to the end of what it has received."""
        return model_stream.start + model_stream.chunks.received / self.rate
