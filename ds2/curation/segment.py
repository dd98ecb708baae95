"""Cuts recordings into utterances at pauses: at long runs of blanks that hold a space.

    tokens   t h e _ _ c a t _ _ _ _ ␣ _ _ _ _ s a t _ ␣ _ o n      _ blank
    run             <->     <--------------->         <->
    cut                             |                               the longest runs first, until the mean length is met

Every run of blanks between two words holds a space, which is a token. Where the alphabet has no space, as in Mandarin,
every run between two characters may be cut. What the model hears without a transcript may lack a space: a run too long
for any word gets one.
"""

import bisect
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.audio.loudness import energies, levels
from ds2.data.utterance import Utterance
from ds2.decoder.greedy import collapse
from ds2.recognition.align import align, on_sound
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, make_transcript
from ds2.recognition.words import Word
from ds2.text import BETWEEN_IDEOGRAPHS
from ds2.utils.errors import InputError

WITHIN_WORD = 0.5  # seconds: the longest run of blanks within a word
ROUNDING = 0.001  # seconds, of the start and the end of a segment


@dataclass(frozen=True)
class SegmentConfig:
    """All in seconds."""

    mean: float = 7.0  # duration of a segment on average; which runs are cut follows from it
    shortest: float = 1.0  # duration of a segment
    longest: float = 20.0  # duration of a segment
    pause: float = 0.12  # shortest run of blanks that is cut
    always: float = 2.0  # a run this long is always cut: no sentence has such a pause
    margin: float = 0.2  # silence kept on each side of a segment

    def __post_init__(self) -> None:
        if not 0 < self.shortest <= self.mean <= self.longest:
            raise InputError(
                f"shortest {self.shortest}, mean {self.mean} and longest {self.longest} must be positive and increase"
            )


@dataclass(frozen=True)
class Segmented:
    """Utterances of one recording.

    Attributes:
        utterances: with offset and duration; extra of each holds `words`: [text, start, end, confidence], seconds from
            its start. Where the recording has no transcript, the text is "" and there are no words.
        duration: seconds of the recording. level: dB of every 10 ms of it.
        too_short, too_long: start and end of segments left out, because no run of blanks was in a suitable place.
    """

    utterances: list[Utterance]
    duration: float
    level: np.ndarray
    too_short: list[tuple[float, float]]
    too_long: list[tuple[float, float]]


def segment(
    recognizer: Recognizer,
    audio: Path,
    text: str | None,
    config: SegmentConfig,
    skip: bool = False,
    language: str | None = None,
) -> Segmented:
    """Aligns a recording with its transcript and cuts it; without a transcript (None) by the model's blanks alone.

    `skip` and `language` are those of `align`.

    Raises:
        InputError: as `align`.
    """
    if text is None:
        transcript, peaks, level = _recognized(recognizer, audio)
    else:
        aligned = align(recognizer, audio, text, skip, language)
        transcript, peaks, level = aligned.transcript, aligned.peaks, aligned.level
    words, duration = transcript.words, transcript.duration
    spans = [(word.start, word.end) for word in words]
    runs = [after[0] - before[1] for before, after in itertools.pairwise(peaks)]
    utterances, too_short, too_long = [], [], []
    for first, last in cut_into_segments(spans, runs, config, duration):
        # Less silence around what would otherwise be a little too long.
        room = (config.longest - (spans[last - 1][1] - spans[first][0])) / 2 - ROUNDING
        margin = min(config.margin, room) if room > 0 else config.margin
        start, end = _limits(spans, first, last, duration, margin)
        if end - start < config.shortest:
            too_short.append((start, end))
        elif end - start > config.longest:
            too_long.append((start, end))
        else:
            spoken = None if text is None else words[first:last]
            utterances.append(_manifest_row(audio, spoken, start, end))
    return Segmented(utterances, duration, level, too_short, too_long)


def cut_into_segments(
    spans: Sequence[tuple[float, float]], runs: Sequence[float], config: SegmentConfig, duration: float = math.inf
) -> list[tuple[int, int]]:
    """Groups words into segments: (first, past the last) of each.

    Cuts the longest runs first, except where a segment would be shorter than `shortest`, until the mean duration
    is reached; after that it cuts only segments longer than `longest`.

    Args:
        spans: start and end (seconds) of each of W words. runs: W - 1 seconds of blanks between them.
        duration: seconds of the recording.
    """
    if not spans:
        return []
    bounds, total = [0, len(spans)], spans[-1][1] - spans[0][0]
    for run, place in sorted(((run, -place) for place, run in enumerate(runs, 1)), reverse=True):
        if run < config.pause:
            break
        at = bisect.bisect(bounds, -place)
        before, after = bounds[at - 1], bounds[at]
        limits = [_limits(spans, *ends, duration, config.margin) for ends in ((before, -place), (-place, after))]
        lengths = [end - start for start, end in limits]
        whole = spans[after - 1][1] - spans[before][0]
        wanted = total > config.mean * (len(bounds) - 1) or whole > config.longest
        if run >= config.always or (wanted and min(lengths) >= config.shortest):
            bounds.insert(at, -place)
            total -= max(0.0, spans[-place][0] - spans[-place - 1][1] - 2 * config.margin)
    return list(itertools.pairwise(bounds))


def _limits(
    spans: Sequence[tuple[float, float]], first: int, last: int, duration: float, margin: float
) -> tuple[float, float]:
    """Where the segment of the words from `first` to `last` - 1 begins and ends in a recording of this duration."""
    start = _edge(spans[first][0], spans[first - 1][1] if first else 0.0, -margin)
    return start, _edge(spans[last - 1][1], spans[last][0] if last < len(spans) else duration, margin)


def _edge(word: float, neighbour: float, margin: float) -> float:
    """The time at which a segment begins or ends: a margin from its outer word, at most half way to the next one."""
    half = (neighbour - word) / 2
    return round(word + (max(half, margin) if margin < 0 else min(half, margin)), 3)


def _manifest_row(audio: Path, words: Sequence[Word] | None, start: float, end: float) -> Utterance:
    """The utterance from `start` to `end`; `words` None: nobody knows what is said in it."""
    if words is None:
        return Utterance(audio.absolute(), round(end - start, 3), "", start)
    text = re.sub(BETWEEN_IDEOGRAPHS, "", " ".join(word.text for word in words))
    times = [[word.text, round(word.start - start, 3), round(word.end - start, 3), word.confidence] for word in words]
    return Utterance(audio.absolute(), round(end - start, 3), text, start, extra={"words": times})


def _recognized(recognizer: Recognizer, audio: Path) -> tuple[Transcript, list[tuple[float, float]], np.ndarray]:
    """The transcript on the model's best path, the peaks of its words, and the level of every 10 ms."""
    best: list[np.ndarray] = []
    scores: list[float] = []
    sounds, count = [], 0
    for log_probs, samples in recognizer.iter_log_probs(audio):
        best.append(log_probs.argmax(1))
        scores += log_probs.max(1).tolist()
        sounds.append(energies(samples, recognizer.sample_rate))
        count += len(samples)
    frame_seconds, duration = recognizer.model.config.frame_seconds, count / recognizer.sample_rate
    tokens = np.concatenate(best)
    if (space := recognizer.tokenizer.index.get(" ")) is not None:
        tokens = spaced_at_pauses(tokens, space, math.ceil(WITHIN_WORD / frame_seconds))
    transcript = make_transcript(collapse(tokens.tolist(), scores), recognizer.tokenizer, frame_seconds, duration)
    level = levels(np.concatenate(sounds), recognizer.sample_rate)
    return on_sound(transcript, level), [(word.start, word.end) for word in transcript.words], level


def spaced_at_pauses(tokens: np.ndarray, space: int, longest: int) -> np.ndarray:
    """(T,) the best token of each frame, with a space within each run of more than `longest` blanks that lacks one."""
    spoken = np.flatnonzero(tokens)
    before, after = spoken[:-1], spoken[1:]
    lacking = (after - before - 1 > longest) & (tokens[before] != space) & (tokens[after] != space)
    found = tokens.copy()
    found[(before + after)[lacking] // 2] = space
    return found
