"""Compares the transcripts of the same utterances: two models, or a model and people."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, word_errors

DRAWS = 10_000  # of the permutation test
LEVEL = 0.05  # of significance
ENOUGH_SPEAKERS = 10  # all signs of five never reach that level, and those of a few more only where all agree
Counts = Sequence[ErrorCounts]  # one for each utterance


@dataclass(frozen=True)
class Comparison:
    """A model's transcripts beside others of the same utterances; differences are the model's minus theirs."""

    others: ErrorCounts
    difference: float  # of the word error rates
    interval: tuple[float, float]  # its 95 % confidence interval, without 0 if p_utterances is at most 0.05
    fewer: int  # utterances with fewer errors than the others have
    more: int
    p_utterances: float  # of a permutation test by utterances
    p_speakers: float | None  # by speakers; None where fewer than two are named
    speakers: int

    @property
    def significant(self) -> bool:
        """Whether the difference is more than chance, by the test by speakers where they are enough for it."""
        p = self.p_speakers if self.p_speakers is not None and self.speakers >= ENOUGH_SPEAKERS else self.p_utterances
        return p <= LEVEL


def compare(utterances: Sequence[Utterance], own: Counts, others: Counts) -> Comparison:
    """Compares word errors, utterance by utterance.

    The utterances of one speaker are not independent: the test by speakers is the safer one, where there are many.
    """
    difference = np.array([ours.errors - theirs.errors for ours, theirs in zip(own, others, strict=True)])
    length = np.array([counts.reference_length for counts in own])
    speakers = {utterance.speaker for utterance in utterances}
    named = len(speakers) > 1 and None not in speakers
    low, high = permutation_interval(difference)
    return Comparison(
        others=sum(others, ErrorCounts()),
        difference=difference.sum() / max(1, length.sum()),
        interval=(low / max(1, length.sum()), high / max(1, length.sum())),
        fewer=int((difference < 0).sum()),
        more=int((difference > 0).sum()),
        p_utterances=permutation_test(difference),
        p_speakers=permutation_test(_by_speaker(utterances, difference)) if named else None,
        speakers=len(speakers) if named else 0,
    )


def permutation_test(differences: np.ndarray) -> float:
    """The probability of a sum so far from 0 if both were equally good: a matched-pairs test, two-sided.

    Differences (N,) of errors, each of an independent unit, change their signs at random (Fisher 1935): all 2^N
    ways, or as many as DRAWS of them, and then p = (1 + as far ones) / (1 + DRAWS) (Phipson and Smyth 2010).
    """
    return float(np.mean(_permuted(differences) >= abs(differences.sum())))


def permutation_interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % confidence interval of the sum of (N,) differences: as far on each side as their signs alone would bring it;
    without 0 exactly where `permutation_test` is at most 0.05."""
    sums = np.sort(_permuted(differences))[::-1]
    # The farthest sum that more than one in twenty reach.
    reach, found = float(sums[int(len(sums) * LEVEL)]), float(differences.sum())
    return found - reach, found + reach


def _permuted(differences: np.ndarray) -> np.ndarray:
    """How far from 0 the sums of (N,) differences with all their signs are, or with those of DRAWS and their own."""
    changing, random = differences[differences != 0], np.random.default_rng(1)
    if 2 ** len(changing) <= DRAWS:
        signs = np.array(list(itertools.product((-1, 1), repeat=len(changing))))
        return np.abs(signs @ changing)
    drawn = (random.choice((-1, 1), size=len(changing)) for _ in range(DRAWS))
    return np.array([abs(changing.sum()), *(abs(np.dot(signs, changing)) for signs in drawn)])


def better_of(references: Sequence[str], texts: Sequence[Sequence[str]]) -> list[str]:
    """Of several people's texts of each utterance the one with the fewest word errors, the first of equal ones.

    So Deep Speech 2 measures people: two transcribe each recording, and the better transcript counts (its section 6).
    """
    each = zip(references, zip(*texts, strict=True), strict=True)
    return [min(given, key=lambda text: word_errors(reference, text).errors) for reference, given in each]


def _by_speaker(utterances: Sequence[Utterance], differences: np.ndarray) -> np.ndarray:
    totals: dict[str | None, int] = {}
    for utterance, difference in zip(utterances, differences.tolist(), strict=True):
        totals[utterance.speaker] = totals.get(utterance.speaker, 0) + difference
    return np.array(list(totals.values()))
