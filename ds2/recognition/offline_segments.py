"""Long recordings in segments that begin and end in pauses: each is searched by itself, as in a live stream.

The n-best of a whole hour would differ in a word somewhere, and say nothing about all others.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LONG_SECONDS = 30.0  # a recording up to this length is one segment
LEAST_SECONDS = 10.0  # of a segment, so that the language model sees a sentence before most words
PAUSE_SECONDS = 0.6  # without speech
SILENCE = 0.5  # a frame in which nothing spoken is more probable than this holds no speech


class LogProbSegment(NamedTuple):
    """A segment of a recording: its (T, V) log-probabilities, and seconds."""

    start: float
    duration: float
    log_probs: np.ndarray


class PauseCutter:
    """Cuts the log-probabilities of a recording as they come; every frame is in one segment."""

    def __init__(self, duration: float, frame_seconds: float, unspoken: Sequence[int]):
        """`duration` of the recording, in seconds; `unspoken`: outputs, see `Tokenizer.unspoken`."""
        self.duration, self.frame_seconds, self.unspoken = duration, frame_seconds, unspoken
        self.rows: list[np.ndarray] = []  # of the segment that has not ended,
        self.speech = np.zeros(0, bool)  # and which of these hold speech
        self.first = 0  # its first frame

    def step(self, log_probs: np.ndarray) -> list[LogProbSegment]:
        """The next (T, V) log-probabilities -> the segments that pauses in them have ended."""
        self.rows.append(log_probs)
        self.speech = np.append(self.speech, holds_speech(log_probs, self.unspoken))
        if self.duration <= LONG_SECONDS or not (places := _pauses(self.speech, self.frame_seconds)):
            return []
        joined, ended = np.concatenate(self.rows), []
        for begin, end in itertools.pairwise([0, *places]):
            start, stop = ((self.first + place) * self.frame_seconds for place in (begin, end))
            ended.append(LogProbSegment(start, stop - start, joined[begin:end]))
        self.first, self.speech = self.first + places[-1], self.speech[places[-1] :]
        self.rows = [joined[places[-1] :]]
        return ended

    def finish(self) -> LogProbSegment:
        """The last segment."""
        start = self.first * self.frame_seconds
        return LogProbSegment(start, self.duration - start, np.concatenate(self.rows))


def holds_speech(log_probs: np.ndarray, unspoken: Sequence[int]) -> np.ndarray:
    """(T, V) log-probabilities -> (T,) whether each frame holds speech.

    The space is no speech: a model may write it anywhere in the pause before a word.
    """
    return np.exp(log_probs[:, unspoken]).sum(1) < SILENCE


def _pauses(speech: np.ndarray, frame_seconds: float) -> list[int]:
    """(T,) whether frames hold speech -> the middle frames of pauses, at least LEAST_SECONDS apart."""
    spoken = np.flatnonzero(speech)
    wide = np.flatnonzero(np.diff(spoken) >= PAUSE_SECONDS / frame_seconds)
    found, last = [], 0
    for middle in ((spoken[wide] + spoken[wide + 1]) // 2).tolist():
        if (middle - last) * frame_seconds >= LEAST_SECONDS:
            found.append(middle)
            last = middle
    return found
