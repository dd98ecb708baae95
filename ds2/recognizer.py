"""Recognizer: audio in, transcripts out. One file or many, short or hours long."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ds2.bundle import Bundle
from ds2.config import from_dict
from ds2.data.audio import probe, read_audio, resample
from ds2.decoder import greedy
from ds2.decoder.beam import BeamConfig, BeamDecoder
from ds2.decoder.lexicon import Lexicon
from ds2.errors import InputError
from ds2.model.acoustic import AcousticModel, ModelConfig
from ds2.text import Tokenizer
from ds2.transcript import Transcript, make_transcript

if TYPE_CHECKING:
    import numpy as np

CORE_SECONDS = 20.0  # of a long recording that one window of the model answers for
CONTEXT_SECONDS = 5.0  # heard on each side of the core, so that no word is cut
LONG_SECONDS = CORE_SECONDS + 2 * CONTEXT_SECONDS  # longer recordings are taken in windows
BATCH_SECONDS = 240.0  # of audio, padding included, in one pass of the model
GROUP_SECONDS = 4 * BATCH_SECONDS  # read ahead and sorted by length, so that little is padded


CLOSED_BEAM_WIDTH = 16  # enough where few words are possible


@dataclass(frozen=True)
class Segment:
    """A file, or `duration` seconds of it from `offset` (seconds) on."""

    path: Path
    offset: float = 0.0
    duration: float | None = None


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


class Recognizer:
    """An acoustic model with its tokens and its decoder."""

    def __init__(self, model: AcousticModel, tokenizer: Tokenizer, beam: BeamDecoder | None = None):
        """`beam` searches prefixes; None decodes greedily."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.beam = beam
        self.sample_rate = model.config.frontend.sample_rate
        self.frame_samples = round(model.config.frame_seconds * self.sample_rate)

    @classmethod
    def load(
        cls, path: "str | Path | None" = None, device: str = "auto", beam_width: int | None = None
    ) -> "Recognizer":
        """Loads a bundle, by default the one in the package, onto "cpu", "cuda" or whichever is there ("auto").

        `beam_width` of the prefix beam search; 0 decodes greedily; None takes what suits the bundle: a beam over its
        closed vocabulary where it has one, else greedy.

        Raises:
            InputError: missing or damaged bundle, or weights that do not fit its configuration.
        """
        path = path or default_model()
        bundle = Bundle.load(path)
        tokenizer = Tokenizer(bundle.metadata["tokens"])
        config = from_dict(ModelConfig, bundle.metadata["config"], str(path))
        with torch.device("meta"):  # shapes alone: drawing initial weights takes longer than loading the real ones
            model = AcousticModel(config, len(tokenizer))
        try:
            model.load_state_dict(bundle.weights, assign=True)
        except RuntimeError as error:
            raise InputError(
                f"{path}: the weights do not fit the bundle's own configuration; train it again"
            ) from error
        beam = make_beam(tokenizer, bundle.metadata.get("vocabulary"), beam_width)
        return cls(model.float().to(choose_device(device)), tokenizer, beam)  # a bundle may be in half precision

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
                yield log_probs, window.samples[window.first_frame * self.frame_samples : last]
        if job.error is not None:
            raise job.error

    def transcribe_files(self, segments: Iterable[Segment]) -> Iterator[tuple[Segment, Transcript | InputError]]:
        """Transcribes many files in batches, in the order given; a bad one yields its error and the rest go on.

        Memory is bounded by GROUP_SECONDS of audio, whatever the number and the length of the files.
        """
        for segment, duration, log_probs in self.log_probs_of_files(segments):
            yield segment, self.decode(log_probs, duration) if isinstance(log_probs, Tensor) else log_probs

    def log_probs_of_files(self, segments: Iterable[Segment]) -> Iterator[tuple[Segment, float, Tensor | InputError]]:
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
                yield self._finish(jobs.pop(0))
        self._run_group(group)
        yield from map(self._finish, jobs)

    @torch.inference_mode()
    def log_probs(self, windows: list[Window]) -> list[Tensor]:
        """One pass of the model over a batch of windows -> the (T, V) log-probabilities that count of each."""
        device = self.model.output.weight.device
        lengths = torch.tensor([len(window.samples) for window in windows])
        samples = torch.nn.utils.rnn.pad_sequence([window.samples for window in windows], batch_first=True)
        log_probs, frames = self.model(samples.to(device), lengths.to(device))
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

    def _finish(self, job: Job) -> tuple[Segment, float, Tensor | InputError]:
        if job.error is not None:
            return job.segment, job.duration, job.error
        return job.segment, job.duration, torch.cat([part for part in job.parts if part is not None])

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
        batch, lengths = log_probs.unsqueeze(0), torch.tensor([len(log_probs)])
        hypothesis = greedy(batch, lengths)[0] if self.beam is None else self.beam(batch, lengths)[0][0]
        return make_transcript(hypothesis, self.tokenizer, self.model.config.frame_seconds, duration)


def make_beam(tokenizer: Tokenizer, vocabulary: list[str] | None, width: int | None) -> BeamDecoder | None:
    """The beam search of a bundle, or None for greedy decoding; see `Recognizer.load`.

    Raises:
        InputError: a negative width.
    """
    if width is not None and width < 0:
        raise InputError(f"--beam {width}: must be at least 1, or 0 to decode greedily")
    if width == 0 or (width is None and not vocabulary):
        return None
    lexicon = None
    if vocabulary:
        [space] = tokenizer.encode(" ")
        lexicon = Lexicon(map(tokenizer.encode, vocabulary), space)
    config = BeamConfig(CLOSED_BEAM_WIDTH if width is None else width, closed=lexicon is not None)
    return BeamDecoder(config, lexicon)


def default_model() -> Path:
    """The bundle that comes with the package.

    Raises:
        InputError: the package was installed without it.
    """
    path = Path(str(resources.files("ds2") / "models" / "digits.safetensors"))
    if not path.exists():
        raise InputError(f"{path}: the bundled model is missing; name one with --model, or run make train-digits")
    return path


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
