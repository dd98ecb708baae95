"""Recognition while the speaker is still speaking, with a model that streams.

stream = ds2.load("digits-streaming").stream()
for samples in microphone:
    if stream.accept(samples, 16000):
        print(stream.final().text)
    else:
        print(stream.partial(), end="\\r")
print(stream.final().text)

    samples -> the model, step by step -> rows ahead -> the search, up to a pause -> final -> what was ahead goes on
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ds2.decoder import Hypothesis
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.greedy import collapse
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.recognition.pieces import SPEECH
from ds2.recognition.samples import checked_samples
from ds2.recognition.transcript import Transcript
from ds2.utils.errors import ParameterError

if TYPE_CHECKING:  # recognizer.py imports this module
    from torch import Tensor

    from ds2.recognition.recognizer import Recognizer

PAUSE = 0.6  # seconds without a label that end an utterance
SEARCHED_SECONDS = 0.12  # at once, before the next look for a pause


class LiveStream:
    """One stream of sound. `Recognizer.stream` makes it."""

    def __init__(self, recognizer: "Recognizer"):
        """A stream of a recogniser whose model streams.

        Raises:
            ParameterError: the model cannot stream.
        """
        self.recognizer = recognizer
        self.beam = recognizer.beam
        self.frame_seconds = recognizer.model.config.frame_seconds
        self.sample_rate: int | None = None
        self.received = 0  # samples at the model's rate
        try:
            self._begin()
        except ValueError as error:
            raise ParameterError("model", str(error)) from error

    def accept(self, samples: "np.ndarray | Tensor", sample_rate: int) -> bool:
        """Takes the next (N,) mono samples, full scale 1.0; tells whether a pause has ended an utterance.

        Raises:
            ParameterError: samples that are empty, not finite or not one-dimensional; a rate that changes.
        """
        checked = checked_samples(samples)
        if self.sample_rate is None:
            self.sample_rate = sample_rate
            self.resampler = _Resampler(sample_rate, self.recognizer.sample_rate)
        if sample_rate != self.sample_rate:
            raise ParameterError("sample_rate", f"changed from {self.sample_rate} to {sample_rate} Hz in one stream")
        self._hear(self.resampler(checked, last=False), last=False)
        return self.paused

    @property
    def paused(self) -> bool:
        """Whether a pause has ended the utterance. A long piece of sound may hold several: ask again after `final`."""
        return self.last_label is not None and (self.frames - self.last_label) * self.frame_seconds >= PAUSE

    def partial(self) -> str:
        """The text of the present utterance so far."""
        return self.recognizer.tokenizer.decode(self.search.partial().tokens).strip()

    def final(self) -> Transcript:
        """The transcript of the utterance that a pause has ended, else of all sound since the one before.

        Times are seconds from the start of the stream. What the model has heard after the pause, and what is accepted
        afterwards, is a new utterance.
        """
        paused = self.paused
        if not paused:
            self._end()
        seconds, frames = self.received / self.recognizer.sample_rate, self.frames - self.first
        start = self.start + self.first * self.frame_seconds
        duration = frames * self.frame_seconds if paused else seconds - start
        transcript = self.recognizer.finish(self.search.finish(), self.rows, duration, start)
        if paused:
            self._begin_utterance()
            self._search_ahead()
        else:
            self._begin()
        return dataclasses.replace(transcript, duration=seconds)

    def _begin(self) -> None:
        self.start = self.received / self.recognizer.sample_rate  # seconds
        self.sample_rate = None
        self.model = self.recognizer.model.stream(phones=isinstance(self.beam, PronouncingDecoder))
        self.ahead = np.zeros((0, 0), np.float32)  # (T, V) log-probabilities that are not searched yet
        self.frames = 0  # searched since `start`
        self._begin_utterance()

    def _begin_utterance(self) -> None:
        self.search = _BeamSearch(self.beam) if self.beam is not None else _GreedySearch()
        self.rows: list[np.ndarray] = []  # (T, V) log-probabilities of the utterance
        self.first = self.frames
        self.last_label: int | None = None  # its frame

    def _end(self) -> None:
        """Hears the rest of the sound, with all pauses in it."""
        if self.sample_rate is not None:
            self._hear(self.resampler(np.zeros(0, np.float32), last=True), last=True)
        while len(self.ahead):
            self._search_some()

    def _hear(self, samples: np.ndarray, last: bool) -> None:
        self.received += len(samples)
        rows = self.model.step(samples, last)
        self.ahead = np.concatenate([self.ahead, rows]) if len(self.ahead) else rows
        self._search_ahead()

    def _search_ahead(self) -> None:
        """Searches up to a pause."""
        while len(self.ahead) and not self.paused:
            self._search_some()

    def _search_some(self) -> None:
        count = max(1, round(SEARCHED_SECONDS / self.frame_seconds))
        rows, self.ahead = self.ahead[:count], self.ahead[count:]
        labels = np.flatnonzero(np.exp(rows[:, 0]) < SPEECH)
        if len(labels):
            self.last_label = self.frames + int(labels[-1])
        self.frames += len(rows)
        self.search.step(rows)
        self.rows.append(rows)


class _Resampler:
    """Samples at one rate to samples at another, chunk by chunk."""

    def __init__(self, from_rate: int, to_rate: int):
        self.stream = None
        if from_rate != to_rate:
            import soxr

            self.stream = soxr.ResampleStream(from_rate, to_rate, 1, dtype="float32")

    def __call__(self, samples: np.ndarray, last: bool) -> np.ndarray:
        return samples if self.stream is None else self.stream.resample_chunk(samples, last=last)


class _BeamSearch:
    """A prefix beam search of one utterance."""

    def __init__(self, decoder: BeamDecoder | PronouncingDecoder):
        self.decoder, self.stream = decoder, decoder.begin()

    def step(self, rows: np.ndarray) -> None:
        """(T, V) log-probabilities of the next frames."""
        self.decoder.step([self.stream], [rows])

    def partial(self) -> Hypothesis:
        return self.decoder.partial(self.stream)

    def finish(self) -> list[Hypothesis]:
        return self.decoder.finish(self.stream)


class _GreedySearch:
    """The best path of one utterance."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.scores: list[float] = []

    def step(self, rows: np.ndarray) -> None:
        """(T, V) log-probabilities of the next frames."""
        self.path += rows.argmax(1).tolist()
        self.scores += rows.max(1).tolist()

    def partial(self) -> Hypothesis:
        return collapse(self.path, self.scores)

    def finish(self) -> list[Hypothesis]:
        return [self.partial()]
