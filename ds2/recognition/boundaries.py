"""Word boundaries: CTC's peaks tell where words are, the energy of the sound where pauses begin and end.

peaks     |the|           |cat||sat|
level   _/-----\\__________/----v----\\__      a pause is the quiet between two words;
words   |  the |         |cat | sat |         without one they meet at the quietest point
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from ds2.audio.loudness import HOP, NOISE_AROUND, NOISE_PERCENTILE

Span = tuple[int, int]  # first level and one past the last


class WordSound(NamedTuple):
    """How loud a word is (dB), and whether it may be quiet within."""

    loudness: float
    has_closure: bool


LATE = 0.03  # seconds by which the peaks of a CTC model follow the sound: measured on synthesised voices
REACH = 100  # levels beyond its peaks that the first word may begin, and the last one end
NEAR = 3  # levels by which a pause may fail to reach into the gap between the peaks of two words
LEAST_PAUSE = 8  # levels: shorter quiet is the closure of a stop, as in "paper"
CLEAR_PAUSE = 20  # levels: what sounds between two such pauses belongs to no word
BREATH, LOUD_BREATH = 20.0, 14.0  # dB below the word: so quiet is a breath, between any two pauses
BEFORE_WORD = 17.0  # dB below the word: a breath or noise right before it, where it lasts
NOT_CLICKS = 0.9  # of the levels of a breath
LEAST_BREATH = 10  # levels before a pause and a word
LONGEST_RELEASE = 20  # levels: what is shorter may be a word's last stop, as in "respect", or an s before its first
STOPS = frozenset("bcdgjkpqtxz")  # letters whose sound begins with a closure, in one language or another
LEAST_CLOSURE = 3  # levels: quiet beside a longer breath
CLICK = 2  # levels: a sound as short as this does not end a pause
AROUND = 30  # levels on each side of a word's peaks that give its loudness
DIGITAL_SILENCE = -95.0  # dB, as between recordings that were joined: tells nothing about their noise
QUIET_FRACTION = 0.2  # of the dB from the noise up to the quieter of two words: below it is quiet between them
DEEPEST = 40.0  # dB below the quieter word everything is quiet, however low the noise
# A threshold that is higher, because of noise, hides how a word begins and fades: levels for each dB, beyond the first.
FIRST_HIDDEN, HIDDEN_START, HIDDEN_END = 3.0, 0.08, 0.35
NOISY = 50.0  # dB below a word: a pause that is quieter hides nothing


NOTHING = WordSound(math.inf, True)  # before the first word and after the last one


def has_closure(word: str) -> bool:
    """Whether a word may be quiet within, because of a stop after its first sound; not an ideograph, nor "three"."""
    return len(word) > 1 and not (word.isascii() and STOPS.isdisjoint(word[1:].lower()))


def word_boundaries(
    level: np.ndarray, peaks: list[tuple[float, float]], closures: list[bool] | None = None
) -> list[tuple[float, float]]:
    """Widens each word from its peaks to the edges of its sound.

    Args:
        level: (T,) dB, what `levels` returns.
        peaks: start and end in seconds of each word's tokens, in order.
        closures: whether each word may be quiet within, what `has_closure` returns; by default any may.

    Returns:
        start and end in seconds. Words do not overlap; two without a pause between them share an edge.
    """
    if not peaks:
        return []
    # beyond the recording it is quiet
    level = np.pad(level, LEAST_PAUSE, constant_values=DIGITAL_SILENCE)
    last = len(level)
    starts = [min(LEAST_PAUSE + max(0, round((start - LATE) / HOP)), last - 1) for start, _ in peaks]
    ends = [min(LEAST_PAUSE + max(0, round((end - LATE) / HOP)), last) for _, end in peaks]
    words = [(start, max(start + 1, end)) for start, end in zip(starts, ends, strict=True)]
    loudness = [level[max(0, start - AROUND) : end + AROUND].max() for start, end in words]
    sounds = [WordSound(*sound) for sound in zip(loudness, closures or [True] * len(words), strict=True)]
    # before the first and after the last word stand two without length
    words = [(max(0, starts[0] - REACH),) * 2, *words, (min(last, words[-1][1] + REACH),) * 2]
    gaps = zip(itertools.pairwise(words), itertools.pairwise([NOTHING, *sounds, NOTHING]), strict=True)
    edges = [words[0]]
    for (before, after), sound in gaps:
        before = max(before[0], edges[-1][1]), before[1]
        edges.append(_pause(level, before, after, *sound) or _meeting(level, before, after))
    seconds = (np.clip(np.array(edges[1:]) - LEAST_PAUSE, 0, last - 2 * LEAST_PAUSE) * HOP).tolist()
    return [(before[1], after[0]) for before, after in itertools.pairwise(seconds)]


def _pause(level: np.ndarray, before: Span, after: Span, ended: WordSound, begun: WordSound) -> Span | None:
    """Where the sound of the word before ends and that of the word after begins; None without a pause between them.

    Peaks may lie in silence: the quiet between the peaks of both words counts from the first peak of the one to the
    last peak of the other, of which each keeps one level.
    """
    first, last = before[0] + 1, after[1] - 1
    loudness = ended.loudness, begun.loudness
    threshold = _quiet_level(level, before[1], after[0], min(loudness))
    quiet = level[first:last] <= threshold
    # each level is that of 20 ms: the last one of a run ends a level later
    runs = [(first + start, min(first + end + 1, last)) for start, end in _runs(quiet)]
    runs = [run for run in runs if run[1] >= before[1] - NEAR and run[0] < after[0] + NEAR]
    runs = [run for run in runs if run[1] - run[0] >= LEAST_CLOSURE]
    longest = max((end - start for start, end in runs), default=0)
    clear = [run for run in runs if run[1] - run[0] >= min(longest, CLEAR_PAUSE)]
    if longest < LEAST_PAUSE:
        clear = clear[:1]
    if not clear:
        return None
    pause = _with_breaths(level, (clear[0][0], clear[-1][1]), runs, ended, begun)
    pause = pause[0], _past_noise(level, pause[1], after[1] - 1, loudness[1])
    return _with_hidden(level, pause, threshold, loudness) if pause[1] - pause[0] >= LEAST_PAUSE else None


def _with_breaths(level: np.ndarray, pause: Span, runs: list[Span], ended: WordSound, begun: WordSound) -> Span:
    """The pause with what is quiet around it, as far as nothing but breaths is between, beside two words."""
    start, end = pause
    for first, past in reversed(runs):  # the farthest first: a breath may have quiet within it
        least = LEAST_BREATH if past - first >= LEAST_PAUSE else LONGEST_RELEASE
        sounds = first - end >= least or _lies_outside((first, past), begun)
        if first > end and sounds and _is_breath(level[end:first], begun.loudness):
            end = past
            break
    pauses = [run[0] for run in runs if run[1] - run[0] >= LEAST_PAUSE] + [start]
    for first, past in runs:
        following = next((pause for pause in pauses if pause > past), past)
        sounds = following - past >= LONGEST_RELEASE or _lies_outside((first, past), ended)
        if past < start and sounds and _is_breath(level[past:start], ended.loudness):
            start = first
            break
    return start, end


def _lies_outside(quiet: Span, word: WordSound) -> bool:
    """Whether it is too long quiet beside the word to be quiet within it."""
    return not word.has_closure and quiet[1] - quiet[0] >= LEAST_PAUSE


def _past_noise(level: np.ndarray, end: int, last: int, loudness: float) -> int:
    """Where the word after a pause begins that has ended, at its `last` peak at the latest: a breath or the noise of a
    room right before it is none of it, if it lasts longer than any first sound that is so quiet."""
    loud = np.flatnonzero(level[end:last] > loudness - BEFORE_WORD)
    begun = end + int(loud[0]) - 1 if len(loud) else end
    return begun if begun - end >= LONGEST_RELEASE else end


def _is_breath(level: np.ndarray, loudness: float) -> bool:
    """Whether nearly all is so quiet; lips that open click."""
    quieter = BREATH if len(level) < LONGEST_RELEASE else LOUD_BREATH
    return bool(np.quantile(level, NOT_CLICKS) <= loudness - quieter)


def _with_hidden(level: np.ndarray, pause: Span, threshold: float, loudness: tuple[float, float]) -> Span:
    """The pause without what the noise hides of the words around it, as far as a pause is left: the nearer a word's
    loudness is to the threshold, the more of it lies below; speech fades by some 3 dB in 10 ms, and begins faster."""
    noise = np.median(level[slice(*pause)])
    hidden = (threshold - (word - DEEPEST) - FIRST_HIDDEN if noise > word - NOISY else 0.0 for word in loudness)
    ended, begun = (max(0.0, decibels) for decibels in hidden)
    end = min(round(HIDDEN_END * ended), pause[1] - pause[0] - LEAST_PAUSE)
    start = min(round(HIDDEN_START * begun), pause[1] - pause[0] - LEAST_PAUSE - end)
    return pause[0] + end, pause[1] - start


def _quiet_level(level: np.ndarray, start: int, end: int, loudness: float) -> float:
    """The level (dB) up to which it is quiet around a gap between words of this loudness."""
    around = level[max(0, start - NOISE_AROUND) : end + NOISE_AROUND]
    noise = float(np.percentile(around[around > min(DIGITAL_SILENCE, around.max() - 1)], NOISE_PERCENTILE))
    return max(noise + QUIET_FRACTION * (loudness - noise), loudness - DEEPEST)


def _runs(quiet: np.ndarray) -> list[Span]:
    """Where it is quiet, clicks left out."""
    edges = np.flatnonzero(np.diff(quiet, prepend=False, append=False))
    runs: list[Span] = []
    for start, end in edges.reshape(-1, 2).tolist():
        click = runs and start - runs[-1][1] <= CLICK
        runs.append((runs.pop()[0] if click else start, end))
    return runs


def _meeting(level: np.ndarray, before: Span, after: Span) -> Span:
    """Where two words without a pause meet: the quietest point between their peaks."""
    first, last = before[1], max(before[1] + 1, after[0])
    place = min(first + int(level[first:last].argmin()) + 1, after[1]) if first < len(level) else first
    return place, place
