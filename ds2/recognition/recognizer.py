"""Recognizer: audio in, transcripts out. One file or many, short or hours long."""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ds2.audio.files import InMemory
from ds2.bundle import Bundle
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.greedy import greedy
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.model.config import Precision
from ds2.model_record import Record
from ds2.recognition import windows
from ds2.recognition.audio_inputs import to_samples
from ds2.recognition.batches import Batches
from ds2.recognition.decoding import make_beam
from ds2.recognition.engine import ONNX_SUFFIX, Engine, load_engine
from ds2.recognition.hearing import Hearing
from ds2.recognition.live import LiveStream
from ds2.recognition.offline_segments import LogProbSegment
from ds2.recognition.options import DEFAULT_OPTIONS, DecoderOptions, EngineName
from ds2.recognition.transcript import Transcript
from ds2.recognition.transcript_builder import TranscriptBuilder, make_builder
from ds2.recognition.windows import Cutter, Job, JoinedWindows, Result, Source, Window, padded, padded_groups
from ds2.text import Tokenizer
from ds2.utils.errors import InputError, ParameterError, unexpected
from ds2.utils.model_names import DEFAULT_MODEL, FINE_TUNED

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

MOST_ALTERNATIVES = 100


class Recognizer:
    """An acoustic model with its tokens and its decoder."""

    def __init__(
        self,
        model: Engine,
        tokenizer: Tokenizer,
        beam: BeamDecoder | PronouncingDecoder | None = None,
        builder: TranscriptBuilder | None = None,
    ):
        """Most callers use `load`.

        Args:
            beam: the search; None decodes greedily.
            builder: makes transcripts; by default without a second pass, calibration and punctuation.
        """
        self.model = model
        self.tokenizer = tokenizer
        self.beam = beam
        self.builder = builder or TranscriptBuilder(tokenizer, model.config.frame_seconds)
        self.sample_rate = model.config.frontend.sample_rate
        self.cutter = Cutter.of(model.config)

    def __repr__(self) -> str:
        search = "greedy" if self.beam is None else f"beam {self.beam.config.beam_width}"
        return f"Recognizer({self.name!r}, {self.sample_rate} Hz, {search}, {self.model.device.type})"

    @classmethod
    def load(
        cls,
        path: str | Path = DEFAULT_MODEL,
        device: str = "auto",
        options: DecoderOptions = DEFAULT_OPTIONS,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        live: bool = False,
    ) -> "Recognizer":
        """Loads a bundle.

        Args:
            path: path of a bundle, or the name of one; for the engine onnx also that of the model.onnx
                that `ds2 export` has written.
            device: cpu, cuda, or auto: cuda if there is a GPU.
            engine: native (no PyTorch), torch, onnx, or auto: native on a CPU, but torch for large recurrent layers.
            precision: int8 is faster on a CPU: recurrent layers by torch, all others by native, which needs a processor
                with AVX-512 VNNI.
            live: the precision is one of ds2 serve, for `model.slots`.

        Raises:
            InputError: the bundle is missing or damaged, its weights do not fit its configuration, or an option cannot
                be met.
            ModuleNotFoundError: the engine's package is not installed.
        """
        found = cls._loaded(*load_engine(path, engine, device, precision, live), str(path), options)
        if options.beam == 0 and found.model.config.phones:
            logger.warning("beam 0: letters alone, though the model finds words by their phones: most will be wrong")
        if (
            found.beam is None
            and options.beam is None
            and (Path(path).suffix == ONNX_SUFFIX or found.model.config.phones)
        ):
            tuned = Path(path).with_name(FINE_TUNED)
            remedy = f"{tuned} has one" if tuned.is_file() else "name one (lm)"
            logger.warning("%s holds no language model: the best symbol of each frame counts; %s", path, remedy)
        return found

    @classmethod
    def from_bundle(
        cls, bundle: Bundle, name: str, device: str = "auto", options: DecoderOptions = DEFAULT_OPTIONS
    ) -> "Recognizer":
        """Like `load` with the engine torch, for a bundle in memory; error messages call it `name`."""
        from ds2.recognition.torch_engine import make_torch_engine

        return cls._loaded(make_torch_engine(bundle, name, device), bundle, name, options)

    @classmethod
    def _loaded(cls, model: Engine, bundle: Record, name: str, options: DecoderOptions) -> "Recognizer":
        if bundle.vocabulary and options.lm is None:
            logger.warning("%s knows %s", name, bundle.knows)
        tokenizer = Tokenizer(bundle.tokens)
        beam = make_beam(tokenizer, bundle, options)
        builder = make_builder(tokenizer, bundle, options, beam, name)
        return cls(model, tokenizer, beam, builder)

    def with_alternatives(self, most: int) -> "Recognizer":
        """The same, whose transcripts also hold the best texts, at most so many; see `Transcript.alternatives`.

        Raises:
            ParameterError: a number out of range, or the search is greedy and finds one text only.
        """
        if not 1 <= most <= MOST_ALTERNATIVES:
            raise ParameterError("alternatives", f"must be from 1 to {MOST_ALTERNATIVES}, got {most}")
        if (beam := self.beam) is None:
            raise ParameterError("alternatives", "the search is greedy and finds one text; give it a beam, such as 100")
        builder = dataclasses.replace(self.builder, compared=beam.config.nbest, alternatives=most)
        # Several hypotheses may have one text. A rescorer weighs no more than without alternatives: it would choose
        # another best one among them.
        if self.builder.rescorer is None:
            beam = beam.with_nbest(beam.config.beam_width)
        return Recognizer(self.model, self.tokenizer, beam, builder)

    @property
    def name(self) -> str:
        """The name or path of the bundle."""
        return self.builder.model

    def transcribe(
        self, audio: "str | Path | bytes | BinaryIO | Tensor | np.ndarray", sample_rate: int | None = None
    ) -> Transcript:
        """Transcribes one recording.

        Args:
            audio: path of a file, its bytes, a file opened in binary mode, or (N,) samples of one channel: floats of
                full scale 1.0, or integers as in WAV files.
            sample_rate: Hz; only for samples, which require it.

        Raises:
            InputError: the file cannot be read.
            ParameterError: the samples are empty, not finite, of several channels or without a sample rate.
        """
        if isinstance(audio, str | Path):
            [(_, transcript)] = self.transcribe_files([audio])
            if isinstance(transcript, InputError):
                raise transcript
            return transcript
        samples = to_samples(audio, sample_rate, self.sample_rate)
        hearing = self._hearing(len(samples) / self.sample_rate)
        for batch in _passes(self.cutter.windows_of_samples(samples)):
            for log_probs in self.log_probs(batch):
                hearing.step(log_probs)
        return self._transcripts([hearing.finish()])[0]

    def stream(self) -> LiveStream:
        """Starts a live stream: it takes samples as they come and returns partial texts and transcripts of segments.

        Raises:
            ParameterError: the model cannot stream.
        """
        try:
            model = self.model.slots(1, "float32", phones=isinstance(self.beam, PronouncingDecoder))
        except ValueError as error:
            raise ParameterError("model", str(error)) from error
        return LiveStream(model, self.beam, self.builder)

    def transcribe_files(
        self, sources: Iterable[Source], on_audio: Callable[[float], object] = lambda seconds: None
    ) -> Iterator[tuple[Source, Transcript | InputError]]:
        """Transcribes many files in batches, in the given order; for a bad file it yields the error and goes on.

        Memory is bounded by GROUP_SECONDS of audio, whatever the number and the length of the files.

        Args:
            sources: each the path of a file, a RecordingSpan, or a whole file in memory
                (`ds2.audio.files.InMemory`).
            on_audio: called with the seconds of audio that each batch adds.

        Raises:
            ParameterError: one path instead of several.
        """
        if isinstance(sources, str):
            raise ParameterError("sources", f"expected several files, got one; put it into a list: [{sources!r}]")
        results = Batches[Source, Hearing](self.cutter, self.log_probs, on_audio, self._hearing).results(sources)
        for group in padded_groups(results, windows.GROUP_SECONDS):
            heard = [(source, found) for source, _, found in group if isinstance(found, Hearing)]
            transcripts = iter(self._transcripts_or_errors(heard))
            for source, _, result in group:
                yield source, result if isinstance(result, InputError) else next(transcripts)

    def log_probs_of_files(
        self, sources: Iterable[Source], on_audio: Callable[[float], object] = lambda seconds: None
    ) -> Iterator[Result[Source, np.ndarray]]:
        """Like `transcribe_files`, without decoding: source, duration in seconds and (T, V) log-probabilities."""
        return Batches[Source, np.ndarray](self.cutter, self.log_probs, on_audio, JoinedWindows).results(sources)

    def iter_log_probs(self, path: str | Path | InMemory) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Iterates over a recording of any length: (T, V) log-probabilities and the (N,) samples of these T frames.

        Raises:
            InputError: the file cannot be read.
        """
        job = Job[str | Path | InMemory, np.ndarray](path)
        frame = self.cutter.frame_samples
        for batch in _passes(self.cutter.windows(job)):
            for window, log_probs in zip(batch, self.log_probs(batch), strict=True):
                last = None if window.last_frame is None else window.last_frame * frame
                yield log_probs[:, : len(self.tokenizer)], window.samples[window.first_frame * frame : last]
        if job.error is not None:
            raise job.error

    def log_probs(self, batch: list[Window]) -> list[np.ndarray]:
        """Runs the model on a batch of windows -> (T, V) log-probabilities of each, without the context at its edges.

        If the model has phones, theirs follow those of the tokens, then the scores of biphones: (T, V + P + Q).
        """
        rows = self.model.log_probs([window.samples for window in batch])
        return [row[window.first_frame : window.last_frame] for window, row in zip(batch, rows, strict=True)]

    def decode(self, log_probs: np.ndarray, duration: float) -> Transcript:
        """(T, V) log-probabilities of a whole recording of `duration` seconds -> its transcript."""
        hearing = self._hearing(duration)
        hearing.step(log_probs)
        return self._transcripts([hearing.finish()])[0]

    def _hearing(self, duration: float) -> Hearing:
        return Hearing(duration, self.model.config.frame_seconds, self.tokenizer.unspoken, self._heard)

    def _transcripts(self, hearings: list[Hearing]) -> list[Transcript]:
        """Of recordings whose ends have been reached; what waits in them is searched together."""
        heard = self._heard(segment for hearing in hearings for segment in hearing.waiting)
        return [
            self.builder.joined([*hearing.heard, *(next(heard) for _ in hearing.waiting)], hearing.cutter.duration)
            for hearing in hearings
        ]

    def _transcripts_or_errors(self, heard: list[tuple[Source, Hearing]]) -> list[Transcript | InputError]:
        """Like `_transcripts`, with the paths; where ds2 itself fails at one recording, the others do not suffer."""
        try:
            found = self._transcripts([hearing for _, hearing in heard])
        except Exception as error:  # in one recording must not end the work on others
            if len(heard) > 1:
                return [result for each in heard for result in self._transcripts_or_errors([each])]
            return [unexpected(heard[0][0], error)]
        paths = [Path(source) if isinstance(source, str | Path) else None for source, _ in heard]
        return [replace(transcript, path=path) for transcript, path in zip(found, paths, strict=True)]

    def _heard(self, segments: Iterable[LogProbSegment]) -> Iterator[Transcript]:
        """What is heard in each segment; memory is bounded by GROUP_SECONDS of them."""
        for group in padded_groups(segments, windows.GROUP_SECONDS):
            found = self.nbest([segment.log_probs for segment in group])
            for nbest, segment in zip(found, group, strict=True):
                yield self.builder.heard(nbest, [segment.log_probs], segment.duration, segment.start)

    def nbest(self, rows: list[np.ndarray]) -> list[list[Hypothesis]]:
        """(T, V) log-probabilities of each recording -> its best hypotheses, best first."""
        if not rows:
            return []
        return self.builder.rescored(self._search(rows))

    def _search(self, rows: list[np.ndarray]) -> list[list[Hypothesis]]:
        if isinstance(self.beam, PronouncingDecoder):
            return self.beam.search(rows)
        log_probs, lengths = padded([row[:, : len(self.tokenizer)] for row in rows])
        if self.beam is None:
            return [[hypothesis] for hypothesis in greedy(log_probs, lengths)]
        return self.beam(log_probs, lengths)


def _passes(cut: Iterator[Window]) -> Iterator[list[Window]]:
    """The windows of one recording, as many of them together as a pass of the model takes."""
    while batch := list(itertools.islice(cut, int(windows.BATCH_SECONDS / windows.LONG_SECONDS))):
        yield batch
