"""Recordings on their way through the model: cut into windows, whose log-probabilities are joined again."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ds2.audio.files import InMemory, probe, read_audio_array
from ds2.audio.quiet import quiet_gain
from ds2.data.utterance import RecordingSpan
from ds2.model.config import ModelConfig
from ds2.utils.errors import InputError, unexpected

CORE_SECONDS = 50.0  # of a long recording whose output frames one window supplies
CONTEXT_SECONDS = 5.0  # read before the core, and where the model may need it after it, so that no word is cut
LONG_SECONDS = CORE_SECONDS + 2 * CONTEXT_SECONDS  # longer recordings are cut into windows
BATCH_SECONDS = 120.0  # of audio in one pass of the model
GROUP_SECONDS = 1.5 * BATCH_SECONDS  # read ahead and sorted by length, so that little is padded

Source = TypeVar("Source", bound=RecordingSpan | InMemory | Path | str)  # what a recording is read from
Row = TypeVar("Row", bound=tuple[Any, float, Any])
Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)
Result = tuple[Source, float, Found | InputError]  # duration in seconds


class Collector(Protocol[Found_co]):
    """Takes the log-probabilities of one recording, window by window."""

    def step(self, log_probs: np.ndarray) -> None:
        """(T, V) of the next window."""

    def finish(self) -> Found_co:
        """What they are for."""


class JoinedWindows:
    """All log-probabilities of a recording."""

    def __init__(self, duration: float):
        self.rows: list[np.ndarray] = []

    def step(self, log_probs: np.ndarray) -> None:
        """See `Collector`."""
        self.rows.append(log_probs)

    def finish(self) -> np.ndarray:
        """(T, V)."""
        return np.concatenate(self.rows)


@dataclass(frozen=True)
class Window:
    """(N,) samples for one pass of the model, and which of its output frames count (None: to the end).

    The samples of a recording that is far too quiet are raised; see `ds2/audio/quiet.py`.
    """

    samples: np.ndarray
    first_frame: int = 0
    last_frame: int | None = None


@dataclass
class Job(Generic[Source, Found]):
    """One recording on its way: the log-probabilities of its windows, or what went wrong."""

    source: Source
    duration: float = 0.0
    windows: int = 0  # that have been cut
    collected: int = 0  # windows whose log-probabilities the collector has
    waiting: dict[int, np.ndarray] = field(default_factory=dict)  # those of windows after one that it lacks
    read: bool = False  # all its windows have been cut
    error: InputError | None = None
    collector: Collector[Found] | None = None

    def take(self, number: int, log_probs: np.ndarray, collect: Callable[[float], Collector[Found]]) -> None:
        """Takes the (T, V) log-probabilities of a window, in any order; `collect` gives the collector."""
        if self.error is not None:
            return
        if self.collector is None:
            self.collector = collect(self.duration)
        self.waiting[number] = log_probs
        try:
            while (rows := self.waiting.pop(self.collected, None)) is not None:
                self.collector.step(rows)
                self.collected += 1
        except Exception as error:  # in one recording must not end the work on others
            self.error = unexpected(self.source, error)

    @property
    def done(self) -> bool:
        """Whether all windows have their log-probabilities, or the recording failed."""
        return self.error is not None or (self.read and self.collected == self.windows)

    @property
    def result(self) -> Result[Source, Found]:
        """Once it is done: the source, its duration, and what was collected or went wrong."""
        if self.error is not None:
            return self.source, self.duration, self.error
        assert self.collector is not None
        return self.source, self.duration, self.collector.finish()


@dataclass(frozen=True)
class Cutter:
    """Cuts recordings for a model that takes `sample_rate` Hz and gives an output frame every `frame_samples`.

    A pass of the model takes windows of at most `batch_seconds` together, padding included, or a single longer one. An
    output frame needs no sound after the `frames_after` that follow it; None: no such number is known.
    """

    sample_rate: int
    frame_samples: int
    batch_seconds: float = BATCH_SECONDS
    frames_after: int | None = None

    @classmethod
    def of(cls, model: ModelConfig) -> "Cutter":
        """For a model: one that hears live sound says how much of what follows it needs."""
        sample_rate, frame = model.frontend.sample_rate, model.frontend.hop_samples * model.stride
        if not model.streams or model.chunk:
            return cls(sample_rate, frame)
        overlap = model.frontend.window_samples - model.frontend.hop_samples
        return cls(sample_rate, frame, frames_after=model.delay + math.ceil(overlap / frame))

    def windows(self, job: Job[Any, Any]) -> Iterator[Window]:
        """Reads a recording window by window; an error ends the windows and is kept in the job."""
        source = job.source
        path, offset, duration, channel = source if isinstance(source, RecordingSpan) else (source, 0.0, None, None)
        try:
            rest = probe(path).duration - offset
            job.duration = rest if duration is None else min(rest, duration)
            if job.duration <= LONG_SECONDS:
                samples, _ = read_audio_array(path, self.sample_rate, offset, duration, channel)
                yield Window(_louder(samples, _gain(channel, [samples])))
                return
            cuts, gain = list(self.cuts(job.duration)), None
            for start, seconds, first, last in cuts:
                samples, _ = read_audio_array(path, self.sample_rate, offset + start, seconds, channel)
                if gain is None:  # of the whole recording; the rest is read for it only where this window is quiet
                    later = (read_audio_array(path, self.sample_rate, offset + cut[0], cut[1])[0] for cut in cuts[1:])
                    gain = _gain(channel, itertools.chain([samples], later))
                yield Window(_louder(samples, gain), first, last)
        except InputError as error:
            job.error = error

    def windows_of_samples(self, samples: np.ndarray) -> Iterator[Window]:
        """The windows of (N,) samples."""
        seconds = len(samples) / self.sample_rate
        samples = _louder(samples, quiet_gain([samples]))
        if seconds <= LONG_SECONDS:
            yield Window(samples)
            return
        for start, length, first, last in self.cuts(seconds):
            begin = round(start * self.sample_rate)
            yield Window(samples[begin : begin + round(length * self.sample_rate)], first, last)

    def cuts(self, seconds: float) -> Iterator[tuple[float, float, int, int | None]]:
        """(start, length) in seconds of each window of a long recording, and the output frames that count.

        |-- core --|-- core --|-- core --|      every frame of the recording counts in exactly one window
        [==========..]                          . context, computed and thrown away
               [....==========..]
                          [....==========]
        """
        frame = self.frame_samples / self.sample_rate
        core, context = int(CORE_SECONDS / frame), int(CONTEXT_SECONDS / frame)
        after = context if self.frames_after is None else min(context, self.frames_after)
        total = int(seconds / frame) + 1
        for first in range(0, total, core):
            begin = max(0, first - context)
            last = first + core
            # Where the rest would be context only, the last window takes it.
            if total - last < context:
                yield begin * frame, seconds - begin * frame, first - begin, None
                return
            yield begin * frame, (last + after - begin) * frame, first - begin, last - begin


def _gain(channel: int | None, buffers: Iterable[np.ndarray]) -> float:
    """`quiet_gain`; 1.0 for one of several channels: where nobody speaks it may hold the faint voice of another."""
    return quiet_gain(buffers) if channel is None else 1.0


def _louder(samples: np.ndarray, gain: float) -> np.ndarray:
    return samples if gain == 1.0 else samples * np.float32(gain)


def padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Arrays (T, ...) of different lengths -> (B, longest T, ...) with zeros behind them, (B,) their lengths."""
    lengths = np.array([len(row) for row in rows])
    if len(rows) == 1:  # without a copy: it may be an hour
        return rows[0][None], lengths
    batch = np.zeros((len(rows), lengths.max(), *rows[0].shape[1:]), rows[0].dtype)
    for place, row in zip(batch, rows, strict=True):
        place[: len(row)] = row
    return batch, lengths


def padded_groups(results: Iterable[Row], seconds: float) -> Iterator[list[Row]]:
    """Neighbours that take up to `seconds` when all are padded to the longest; a longer one comes alone.

    The second value of each row is its duration in seconds.
    """
    group: list[Row] = []
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
