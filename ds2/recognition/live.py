"""Recognition while the speaker is still speaking, with a model that streams.

stream = ds2.load("digits-streaming").stream()
for samples in microphone:
    if stream.accept(samples, 16000):
        print(stream.final().text)
    else:
        print(stream.partial(), end="\\r")
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ds2.decoder import Hypothesis
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.greedy import collapse
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.recognition.samples import checked_samples
from ds2.recognition.transcript import Transcript
from ds2.utils.errors import ParameterError

if TYPE_CHECKING:  # recognizer.py imports this module
    from torch import Tensor

    from ds2.recognition.recognizer import Recognizer

PAUSE = 0.6  # seconds without a label that end an utterance
SPEECH = 0.5  # a frame whose blank is less probable than this holds a label


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
        self._step(self.resampler(checked, last=False), last=False)
        return self.last_label is not None and (self.frames - self.last_label) * self.frame_seconds >= PAUSE

    def partial(self) -> str:
        """The text of the present utterance so far."""
        return self.recognizer.tokenizer.decode(self.search.partial().tokens).strip()

    def final(self) -> Transcript:
        """Ends the utterance and returns its transcript; times are seconds from the start of the stream.

        What is accepted afterwards is a new utterance.
        """
        if self.sample_rate is not None:
            self._step(self.resampler(np.zeros(0, np.float32), last=True), last=True)
        seconds = self.received / self.recognizer.sample_rate
        start, rows, nbest = self.start, self.rows, self.search.finish()
        self._begin()
        self.sample_rate = None
        return dataclasses.replace(self.recognizer.finish(nbest, rows, seconds - start, start), duration=seconds)

    def _begin(self) -> None:
        self.start = self.received / self.recognizer.sample_rate  # seconds
        self.model = self.recognizer.model.stream(phones=isinstance(self.beam, PronouncingDecoder))
        self.search = _BeamSearch(self.beam) if self.beam is not None else _GreedySearch()
        self.rows: list[np.ndarray] = []  # (T, V) log-probabilities of the utterance
        self.frames = 0  # of the utterance
        self.last_label: int | None = None  # frame of the utterance

    def _step(self, samples: np.ndarray, last: bool) -> None:
        self.received += len(samples)
        rows = self.model.step(samples, last)
        labels = np.flatnonzero(np.exp(rows[:, 0]) < SPEECH)
        if len(labels):
            self.last_label = self.frames + int(labels[-1])
        self.frames += len(rows)
        if len(rows):
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
