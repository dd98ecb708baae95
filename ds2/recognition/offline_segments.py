"""Long recordings in segments that begin and end in pauses: each is searched by itself, as in a live stream.

The n-best of a whole hour would differ in a word somewhere, and say nothing about all others.
"""

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


def cut_at_pauses(log_probs: np.ndarray, duration: float, frame_seconds: float) -> list[LogProbSegment]:
    """(T, V) log-probabilities of a recording of `duration` seconds -> its segments; every frame is in one of them."""
    places = [0, *_pauses(log_probs, frame_seconds), len(log_probs)] if duration > LONG_SECONDS else [0, len(log_probs)]
    times = [place * frame_seconds for place in places[:-1]] + [duration]
    return [
        LogProbSegment(times[number], times[number + 1] - times[number], log_probs[places[number] : places[number + 1]])
        for number in range(len(times) - 1)
    ]


def _pauses(log_probs: np.ndarray, frame_seconds: float) -> list[int]:
    """The middle frames of pauses, at least LEAST_SECONDS apart."""
    labels = np.flatnonzero(log_probs[:, BLANK] < np.log(SPEECH))
    wide = np.flatnonzero(np.diff(labels) >= PAUSE_SECONDS / frame_seconds)
    found, last = [], 0
    for middle in ((labels[wide] + labels[wide + 1]) // 2).tolist():
        if (middle - last) * frame_seconds >= LEAST_SECONDS:
            found.append(middle)
            last = middle
    return found
