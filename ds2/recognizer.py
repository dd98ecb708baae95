"""Recognizer: audio in, transcripts out. One file or many, short or hours long."""

import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ds2.bundle import DEFAULT_MODEL, Bundle
from ds2.config import from_dict
from ds2.data.audio import probe, read_audio, resample
from ds2.decoder import Hypothesis, greedy
from ds2.decoder.batched import BatchedDecoder
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.decoder.rescore import SentenceModel, load_sentence_model, rescore
from ds2.decoder_options import BUNDLES_CHOICE, DecoderOptions
from ds2.decoding import make_beam
from ds2.errors import InputError
from ds2.jobs import Job, Result, Segment, Window, padded_groups
from ds2.model.acoustic import AcousticModel, ModelConfig
from ds2.text import Tokenizer, split_words
from ds2.transcript import Transcript, make_transcript

if TYPE_CHECKING:
    import numpy as np

CORE_SECONDS = 20.0  # of a long recording that one window of the model answers for
CONTEXT_SECONDS = 5.0  # heard on each side of the core, so that no word is cut
LONG_SECONDS = CORE_SECONDS + 2 * CONTEXT_SECONDS  # longer recordings are taken in windows
BATCH_SECONDS = 240.0  # of audio, padding included, in one pass of the model
ON_GPU = 16  # utterances from which on a GPU searches them: its time hardly depends on their number
GROUP_SECONDS = 4 * BATCH_SECONDS  # read ahead and sorted by length, so that little is padded


class Recognizer:
    """An acoustic model with its tokens and its decoder."""

    def __init__(
        self,
        model: AcousticModel,
        tokenizer: Tokenizer,
        beam: BeamDecoder | PronouncingDecoder | None = None,
        rescorer: SentenceModel | None = None,
    ):
        """`beam` searches prefixes; None decodes greedily. `rescorer` weighs what it finds again."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.beam = beam
        self.rescorer = rescorer
        self.sample_rate = model.config.frontend.sample_rate
        self.frame_samples = round(model.config.frame_seconds * self.sample_rate)

    @classmethod
    def load(
        cls, path: str | Path = DEFAULT_MODEL, device: str = "auto", options: DecoderOptions = BUNDLES_CHOICE
    ) -> "Recognizer":
        """Loads a bundle, a file or by its name in the package, onto "cpu", "cuda" or whichever is there ("auto").

        Raises:
            InputError: missing or damaged bundle, weights that do not fit its configuration, or options that cannot be
                met.
        """
        bundle = Bundle.load(path)
        tokenizer = Tokenizer(bundle.metadata["tokens"])
        config = from_dict(ModelConfig, bundle.metadata["config"], str(path))
        with torch.device("meta"):  # shapes alone: drawing initial weights takes longer than loading the real ones
            model = AcousticModel(config, len(tokenizer))
        try:
            model.load_state_dict({name: tensor.float() for name, tensor in bundle.weights.items()}, assign=True)
        except RuntimeError as error:
            raise InputError(
                f"{path}: the weights do not fit the bundle's own configuration; train it again"
            ) from error
        beam = make_beam(tokenizer, bundle, options)
        rescorer = load_sentence_model(options.rescore) if options.rescore is not None else None
        return cls(model.to(choose_device(device)), tokenizer, beam, rescorer)

    def transcribe(self, audio: "str | Path | Tensor | np.ndarray", sample_rate: int | None = None) -> Transcript:
        """Transcribes a file, or (N,) mono samples at `sample_rate` Hz (by default the model's).

        Raises:
            InputError: the file cannot be read; samples that are empty, not finite or not one-dimensional.
        """
        if isinstance(audio, str | Path):
            [(_, transcript)] = self.transcribe_files([Segment(Path(audio))])
            if isinstance(transcript, InputError):
                raise transcript
            return transcript
        samples = torch.as_tensor(audio, dtype=torch.float32)
        if samples.dim() != 1 or samples.numel() == 0 or not bool(samples.isfinite().all()):
            raise InputError(f"samples: expected (N,) finite values, got shape {tuple(samples.shape)}")
        samples = resample(samples, sample_rate or self.sample_rate, self.sample_rate)
        parts = [self.log_probs([window])[0] for window in self._windows_of_samples(samples)]
        return self.decode(torch.cat(parts), len(samples) / self.sample_rate)

    def listen(self, path: str | Path) -> Iterator[tuple[Tensor, Tensor]]:
        """Goes through a recording of any length: (T, V) log-probabilities and the (N,) samples of these T frames.

        Raises:
            InputError: the file cannot be read.
        """
        job = Job(Segment(Path(path)))
        windows = self._windows_of_job(job)
        while batch := list(itertools.islice(windows, int(BATCH_SECONDS / LONG_SECONDS))):
            for window, log_probs in zip(batch, self.log_probs(batch), strict=True):
                last = None if window.last_frame is None else window.last_frame * self.frame_samples
                yield (
                    log_probs[:, : len(self.tokenizer)],
                    window.samples[window.first_frame * self.frame_samples : last],
                )
        if job.error is not None:
            raise job.error

    def transcribe_files(self, segments: Iterable[Segment]) -> Iterator[tuple[Segment, Transcript | InputError]]:
        """Transcribes many files in batches, in the order given; a bad one yields its error and the rest go on.

        Memory is bounded by GROUP_SECONDS of audio, whatever the number and the length of the files.
        """
        for group in padded_groups(self.log_probs_of_files(segments), GROUP_SECONDS):
            good = [(log_probs, duration) for _, duration, log_probs in group if isinstance(log_probs, Tensor)]
            transcripts = iter(self._decode(good))
            for segment, _, result in group:
                yield segment, result if isinstance(result, InputError) else next(transcripts)

    def log_probs_of_files(self, segments: Iterable[Segment]) -> Iterator[Result]:
        """As `transcribe_files`, not decoded: the segment, its duration in seconds, (T, V) log-probabilities."""
        jobs: list[Job] = []
        group: list[tuple[Job, int, Window]] = []
        held = 0  # samples in the group
        for segment in segments:
            job = Job(segment)
            jobs.append(job)
            for number, window in enumerate(self._windows_of_job(job)):
                job.parts.append(None)
                group.append((job, number, window))
                held += len(window.samples)
                if held >= GROUP_SECONDS * self.sample_rate:
                    self._run_group(group)
                    group.clear()
                    held = 0
            job.read = True
            while not group and jobs and jobs[0].done:
                yield jobs.pop(0).result
        self._run_group(group)
        for job in jobs:
            yield job.result

    @property
    def device(self) -> torch.device:
        return self.model.output.weight.device

    @torch.inference_mode()
    def log_probs(self, windows: list[Window]) -> list[Tensor]:
        """One pass of the model over a batch of windows -> the (T, V) log-probabilities that count of each.

        Those of phones, where the model has them, lie behind those of the tokens.
        """
        lengths = torch.tensor([len(window.samples) for window in windows])
        samples = torch.nn.utils.rnn.pad_sequence([window.samples for window in windows], batch_first=True)
        log_probs, frames = self.model.all_log_probs(samples.to(self.device), lengths.to(self.device))
        rows = zip(windows, log_probs.cpu(), frames.tolist(), strict=True)
        return [row[:length][window.first_frame : window.last_frame] for window, row, length in rows]

    def _run_group(self, group: list[tuple[Job, int, Window]]) -> None:
        """Runs windows of like length together and hands the results to their jobs."""
        ordered = sorted(group, key=lambda item: len(item[2].samples), reverse=True)
        while ordered:
            size = max(1, int(BATCH_SECONDS * self.sample_rate / len(ordered[0][2].samples)))
            batch, ordered = ordered[:size], ordered[size:]
            for (job, number, _), part in zip(batch, self.log_probs([item[2] for item in batch]), strict=True):
                job.parts[number] = part

    def _windows_of_job(self, job: Job) -> Iterator[Window]:
        """Reads a recording piece by piece; an error ends it and stays with the job."""
        segment = job.segment
        try:
            rest = probe(segment.path).duration - segment.offset
            job.duration = rest if segment.duration is None else min(rest, segment.duration)
            if job.duration <= LONG_SECONDS:
                samples, _ = read_audio(segment.path, self.sample_rate, segment.offset, segment.duration)
                yield Window(samples)
                return
            for start, window_seconds, first, last in self._cuts(job.duration):
                samples, _ = read_audio(segment.path, self.sample_rate, segment.offset + start, window_seconds)
                yield Window(samples, first, last)
        except InputError as error:
            job.error = error

    def _windows_of_samples(self, samples: Tensor) -> Iterator[Window]:
        seconds = len(samples) / self.sample_rate
        if seconds <= LONG_SECONDS:
            yield Window(samples)
            return
        for start, window_seconds, first, last in self._cuts(seconds):
            begin = round(start * self.sample_rate)
            yield Window(samples[begin : begin + round(window_seconds * self.sample_rate)], first, last)

    def _cuts(self, seconds: float) -> Iterator[tuple[float, float, int, int | None]]:
        """(start, length) in seconds of each window of a long recording, and the output frames that count.

        |-- core --|-- core --|-- core --|      every frame of the recording counts in exactly one window
        [==========....]                        . context, heard and thrown away
               [....==========....]
                          [....==========]
        """
        frame = self.frame_samples / self.sample_rate
        core, context = int(CORE_SECONDS / frame), int(CONTEXT_SECONDS / frame)
        total = int(seconds / frame) + 1
        for first in range(0, total, core):
            begin = max(0, first - context)
            last = first + core
            if total - last < context:  # what is left would be context only: the last window takes it
                yield begin * frame, seconds - begin * frame, first - begin, None
                return
            yield begin * frame, (last + context - begin) * frame, first - begin, last - begin

    def decode(self, log_probs: Tensor, duration: float) -> Transcript:
        """(T, V) log-probabilities of a whole recording -> its transcript."""
        return self._decode([(log_probs, duration)])[0]

    def _decode(self, recordings: list[tuple[Tensor, float]]) -> list[Transcript]:
        """(T, V) log-probabilities and duration in seconds of each recording -> the transcripts."""
        if not recordings:
            return []
        rows = [log_probs for log_probs, _ in recordings]
        found = self._search(
            torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor(list(map(len, rows)))
        )
        return [self._transcript(nbest, duration) for nbest, (_, duration) in zip(found, recordings, strict=True)]

    def _search(self, log_probs: Tensor, lengths: Tensor) -> list[list[Hypothesis]]:
        if isinstance(self.beam, PronouncingDecoder):
            return self.beam(log_probs, lengths)
        log_probs = log_probs[..., : len(self.tokenizer)]
        if self.beam is None:
            return [[hypothesis] for hypothesis in greedy(log_probs, lengths)]
        if self.device.type == "cuda" and len(lengths) >= ON_GPU:
            return self._batched(log_probs.to(self.device), lengths)
        return self.beam(log_probs, lengths)

    @functools.cached_property
    def _batched(self) -> BatchedDecoder:
        assert isinstance(self.beam, BeamDecoder)
        return BatchedDecoder(*self.beam.problem)

    def _transcript(self, found: list[Hypothesis], duration: float) -> Transcript:
        if self.rescorer is not None and self.beam is not None:
            config, texts = self.beam.config, [self.tokenizer.decode(hypothesis.tokens) for hypothesis in found]
            found = rescore(found, list(map(split_words, texts)), self.rescorer, config.lm_weight, config.word_bonus)
        best, *rivals = found
        return make_transcript(best, self.tokenizer, self.model.config.frame_seconds, duration, rivals)


def choose_device(name: str) -> str:
    """ "auto" -> "cuda" where there is one, else "cpu".

    Raises:
        InputError: a CUDA device is asked for and there is none, or the name is no device.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"--device {name}: not a device; use auto, cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: not supported; use auto, cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        here = f"{count} CUDA devices here" if count else "no CUDA device here; use --device cpu"
        raise InputError(f"--device {name}: {here}")
    return name
