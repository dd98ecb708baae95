"""Long recordings in segments that begin and end in pauses: each is searched by itself, as in a live stream.

The n-best of a whole hour would differ in a word somewhere, and say nothing about all others.
"""

import itertools
from typing import NamedTuple

import numpy as np

from ds2.text import BLANK

LONG_SECONDS = 30.0  # a recording up to this length is one segment
LEAST_SECONDS = 10.0  # of a segment, so that the language model sees a sentence before most words
PAUSE_SECONDS = 0.6  # without a label
SPEECH = 0.5  # a frame whose blank is less probable than this holds a label


class LogProbSegment(NamedTuple):
    """A segment of a recording: its (T, V) log-probabilities, and seconds."""

    start: float
    duration: float
    log_probs: np.ndarray


class PauseCutter:
    """Cuts the log-probabilities of a recording as they come; every frame is in one segment."""

    def __init__(self, duration: float, frame_seconds: float):
        """`duration` of the recording, in seconds."""
        self.duration, self.frame_seconds = duration, frame_seconds
        self.rows: list[np.ndarray] = []  # of the segment that has not ended,
        self.blanks = np.zeros(0, np.float32)  # and the blank's column of these
        self.first = 0  # its first frame

    def step(self, log_probs: np.ndarray) -> list[LogProbSegment]:
        """The next (T, V) log-probabilities -> the segments that pauses in them have ended."""
        self.rows.append(log_probs)
        self.blanks = np.append(self.blanks, log_probs[:, BLANK])
        if self.duration <= LONG_SECONDS or not (places := _pauses(self.blanks, self.frame_seconds)):
            return []
        joined, ended = np.concatenate(self.rows), []
        for begin, end in itertools.pairwise([0, *places]):
            start, stop = ((self.first + place) * self.frame_seconds for place in (begin, end))
            ended.append(LogProbSegment(start, stop - start, joined[begin:end]))
        self.first, self.blanks = self.first + places[-1], self.blanks[places[-1] :]
        self.rows = [joined[places[-1] :]]
        return ended

    def finish(self) -> LogProbSegment:
        """The last segment."""
        start = self.first * self.frame_seconds
        return LogProbSegment(start, self.duration - start, np.concatenate(self.rows))


def _pauses(blanks: np.ndarray, frame_seconds: float) -> list[int]:
    """(T,) log-probabilities of the blank -> the middle frames of pauses, at least LEAST_SECONDS apart."""
    labels = np.flatnonzero(blanks < np.log(SPEECH))
    wide = np.flatnonzero(np.diff(labels) >= PAUSE_SECONDS / frame_seconds)
    found, last = [], 0
    for middle in ((labels[wide] + labels[wide + 1]) // 2).tolist():
        if (middle - last) * frame_seconds >= LEAST_SECONDS:
            found.append(middle)
            last = middle
    return found
