"""Recognition while the speaker is still speaking, with a model that streams.

stream = ds2.load("english").stream()
for samples in microphone:
    stream.accept(samples, 16000)
    for transcript in stream.results():
        print(transcript.text)
    print(stream.partial(), end="\\r")
for transcript in stream.finish():
    print(transcript.text)

    samples -> the model's rate -> Chunks -> the model -> LiveSegments -> transcripts, until they are taken
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.recognition.audio_inputs import StreamResampler, checked_samples
from ds2.recognition.chunks import Chunk, Chunks
from ds2.recognition.engine import Slots
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.live_segments import BeamSearch, GreedySearch, LiveSegment, LiveSegments, Search
from ds2.recognition.transcript import Transcript
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.utils.errors import ParameterError

if TYPE_CHECKING:
    from torch import Tensor

SLOT = np.zeros(1, np.int64)  # the only one


class LiveStream:
    """One stream of sound. `Recognizer.stream` makes it.

    No segment is lost: one that has ended waits until `results` or `finish` returns it. Times are seconds from the
    start of the stream, and `duration` is the end of the segment. Segments without words are left out.
    """

    resampler: StreamResampler | None  # None before the first samples, which bring their rate
    chunks: Chunks
    segments: LiveSegments[Search]

    def __init__(
        self,
        model: Slots,
        beam: BeamDecoder | PronouncingDecoder | None,
        builder: TranscriptBuilder,
    ):
        """A stream in the only slot of `model`; `beam` None decodes greedily."""
        self.model, self.builder, self.config = model, builder, LiveConfig()
        self.begin_search: Callable[[], Search] = GreedySearch if beam is None else functools.partial(BeamSearch, beam)
        self.rate = model.config.frontend.sample_rate
        self.ended: deque[Transcript] = deque()
        self._begin(0.0)

    def __repr__(self) -> str:
        heard = self.start + self.chunks.received / self.rate
        return f"LiveStream({heard:.2f} s heard, {len(self.ended)} segments waiting)"

    def accept(self, samples: "np.ndarray | Tensor", sample_rate: int) -> None:
        """Takes the next (N,) samples of one channel: floats of full scale 1.0, or integers as WAV files hold them.

        Raises:
            ParameterError: samples that are empty, not finite, of several channels or of another kind; a rate that
                changes.
        """
        checked = checked_samples(samples)
        if self.resampler is None:
            self.sample_rate, self.resampler = sample_rate, StreamResampler(sample_rate, self.rate)
        if sample_rate != self.sample_rate:
            raise ParameterError("sample_rate", f"changed from {self.sample_rate} to {sample_rate} Hz in one stream")
        self._run(self.chunks.step(self.resampler(checked, last=False)))

    def results(self) -> Iterator[Transcript]:
        """The segments that have ended and were not returned yet, in order; each is returned once."""
        while self.ended:
            yield self.ended.popleft()

    def partial(self) -> str:
        """The text of the current segment so far."""
        return self.builder.tokenizer.decode(self.segments.partial().tokens).strip()

    def finish(self) -> list[Transcript]:
        """Ends the sound -> all segments that were not returned yet. Later samples begin a new sound."""
        if self.resampler is not None:
            self._run(self.chunks.step(self.resampler(np.zeros(0, np.float32), last=True)))
            self._run(self.chunks.finish())
        end = self.start + self.chunks.received / self.rate
        self._keep([self.segments.finish(end)])
        self._begin(end)
        return list(self.results())

    def _begin(self, start: float) -> None:
        """Begins new sound at so many seconds."""
        self.start = start
        self.resampler = None
        self.chunks = Chunks(self.config.steps(self.model.config))
        keeps = self.builder.judged_outputs
        unspoken = self.builder.tokenizer.unspoken
        self.segments = LiveSegments(self.begin_search, self.model.config, self.config, unspoken, start, keeps=keeps)

    def _run(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            place = SLOT, np.array([chunk.position]), np.array([chunk.length])
            [log_probs] = self.model.advance(*place, chunk.samples[None])
            self._keep(self.segments.step(log_probs[chunk.rows]))

    def _keep(self, segments: list[LiveSegment]) -> None:
        for found in segments:
            [hypotheses] = self.builder.rescored([found.hypotheses])
            transcript = self.builder(hypotheses, found.rows, found.duration, found.start)
            if transcript.text:
                self.ended.append(replace(transcript, duration=found.start + found.duration))
