"""Fits the calibration of a bundle to utterances that it was not trained on, and to sounds without speech."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from ds2.audio.no_speech import sounds
from ds2.audio.tensors import read_audio
from ds2.bundle import Bundle
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, word_errors
from ds2.recognition.calibration import WEIGHTS, Calibration, area_under_roc, calibration_error, fit, only_speech
from ds2.recognition.evaluate import right_words
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, with_confidences
from ds2.recognition.tuning_utterances import readable_utterances
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError

NEUTRAL = Calibration((0.0,) * WEIGHTS, 0.0)
NOISE_SECONDS, NOISE_SEEDS = 10.0, range(8)  # of each kind of synthesised sound, and how many of each
# Up to one word in five right: beyond it strangers lose words.
THRESHOLDS = tuple(round(0.01 * step, 2) for step in range(21))
MOST_LOST = 0.002  # of the words of a data set, or one: so many more may be wrong
RARE = 0.2  # false words a minute that are as good as none


@dataclass(frozen=True)
class Heard:
    """A recording: what was said, by whom, what was recognised, and the (W, WEIGHTS) evidence for it."""

    reference: str
    speaker: str
    transcript: Transcript
    evidence: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """A calibration, and its figures.

    Attributes:
        noise: words a minute of the synthesised noise, and of the recordings if there are any, each without and with
            the threshold.
        error_rates: those of each data set without and with it.
        unheard: of each data set the expected calibration error and the area under ROC, each speaker's words judged by
            a fit to the other half of the speakers, or of the utterances without speakers; None where that half teaches
            nothing.
    """

    calibration: Calibration
    noise: list[tuple[float, float]]
    error_rates: list[tuple[float, float]]
    unheard: list[tuple[float, float] | None]
    skipped: list[str]


def tune_confidence(
    recognizer: Recognizer,
    data_sets: Sequence[Sequence[Utterance]],
    noise: Sequence[Path],
    least: float = 0.0,
    on_done: Callable[[], None] = lambda: None,
) -> Outcome:
    """Fits the confidence of words, then the least confidence of speech.

    The threshold is the lowest one by which noise gives as good as no words, not below that of the bundle, which may
    have been fitted to more noise, unless a data set would lose more than MOST_LOST.

    Args:
        recognizer: of a bundle that is `calibrated` by NEUTRAL.
        noise: recordings without speech, besides the synthesised ones.
        least: the threshold of the bundle.
        on_done: called after each utterance.

    Raises:
        InputError: no utterance can be read, or nothing can be learnt from them.
    """
    skipped: list[str] = []
    speech = [list(_listen(recognizer, utterances, skipped, on_done)) for utterances in data_sets]
    rate = recognizer.sample_rate
    silences = [[hear(recognizer, samples) for samples in each] for each in (synthesised(rate), recorded(rate, noise))]
    silence = [heard for each in silences for heard in each]
    if not any(speech):
        raise InputError(f"{skipped[0]} (and so on: no utterance can be read)" if skipped else "no utterances")
    calibration = _fitted([heard for each in (*speech, silence) for heard in each])
    spoken, silent = (
        [[judge(heard, calibration) for heard in each] for each in group] for group in (speech, filter(None, silences))
    )
    least = _choose_threshold(spoken, silent, least)
    pairs = [(_errors(each, 0.0).rate, _errors(each, least).rate) for each in spoken]
    noise_words = [(_words_a_minute(each, 0.0), _words_a_minute(each, least)) for each in silent]
    return Outcome(replace(calibration, least=least), noise_words, pairs, _unheard(speech, silence), skipped)


def calibrated(bundle: Bundle, calibration: Calibration) -> Bundle:
    """The bundle with another calibration."""
    return replace(bundle, confidence=to_dict(calibration))


def synthesised(sample_rate: int) -> Iterator[Tensor]:
    """(N,) samples of each synthesised sound without speech."""
    for seed in NOISE_SEEDS:
        yield from (samples for _, samples in sounds(NOISE_SECONDS, sample_rate, seed))


def recorded(sample_rate: int, recordings: Sequence[Path]) -> Iterator[Tensor]:
    """(N,) samples of the first channel of each recording."""
    for path in recordings:
        yield read_audio(path, sample_rate)[0]


def hear(recognizer: Recognizer, samples: Tensor) -> Heard:
    """Transcribes (N,) samples without speech, and keeps the evidence."""
    windows = recognizer.cutter.windows_of_samples(samples.numpy())
    log_probs = np.concatenate([recognizer.log_probs([window])[0] for window in windows])
    return _examine(recognizer, ("", ""), log_probs, len(samples) / recognizer.sample_rate)


def judge(heard: Heard, calibration: Calibration) -> Heard:
    """The same with calibrated confidences."""
    return replace(heard, transcript=with_confidences(heard.transcript, calibration(heard.evidence)))


def _listen(
    recognizer: Recognizer, utterances: Sequence[Utterance], skipped: list[str], on_done: Callable[[], None]
) -> Iterator[Heard]:
    for utterance, log_probs, duration in readable_utterances(recognizer, utterances, skipped, on_done):
        yield _examine(recognizer, (utterance.text, utterance.speaker or utterance.text), log_probs, duration)


def _examine(recognizer: Recognizer, said: tuple[str, str], log_probs: np.ndarray, duration: float) -> Heard:
    [nbest] = recognizer.nbest([log_probs])
    return Heard(*said, *recognizer.builder.examine(nbest, log_probs, duration))


def _fitted(every: Sequence[Heard]) -> Calibration:
    return fit(np.concatenate([heard.evidence for heard in every]), np.array(_right(every), bool))


def _right(every: Sequence[Heard]) -> list[bool]:
    return [right for heard in every for right in right_words(heard.reference, heard.transcript)]


def _unheard(speech: Sequence[Sequence[Heard]], silence: Sequence[Heard]) -> list[tuple[float, float] | None]:
    """See `Outcome`."""
    halves: list[list[list[Heard]]] = []  # of the speakers of each data set
    for every in speech:
        first = set(sorted({heard.speaker for heard in every})[::2])
        halves.append([[heard for heard in every if (heard.speaker in first) == one] for one in (True, False)])
    try:
        fits = [_fitted([*itertools.chain(*(half[other] for half in halves)), *silence]) for other in (1, 0)]
    except InputError:
        return [None] * len(speech)
    return [_calibration_figures([judge(heard, fits[one]) for one in (0, 1) for heard in half[one]]) for half in halves]


def _calibration_figures(every: Sequence[Heard]) -> tuple[float, float]:
    confidences = [word.confidence for heard in every for word in heard.transcript.words]
    right = _right(every)
    return calibration_error(confidences, right), area_under_roc(confidences, right)


def _choose_threshold(speech: Sequence[Sequence[Heard]], silences: Sequence[Sequence[Heard]], own: float) -> float:
    """The lowest threshold from `own` on with as good as no words in each kind of silence, or else the highest that
    loses few words of speech."""
    allowed = [least for least in THRESHOLDS if all(_loses_few(each, least) for each in speech)]
    kept = [least for least in allowed if least >= own] or allowed[-1:]
    quiet = (least for least in kept if all(_words_a_minute(each, least) <= RARE for each in silences))
    return min(quiet, default=max(kept))


def _loses_few(every: Sequence[Heard], least: float) -> bool:
    before, after = _errors(every, 0.0), _errors(every, least)
    return after.errors - before.errors <= max(1, MOST_LOST * before.reference_length)


def _errors(every: Sequence[Heard], least: float) -> ErrorCounts:
    texts = ((heard.reference, only_speech(heard.transcript, least).text) for heard in every)
    return sum((word_errors(*pair) for pair in texts), ErrorCounts())


def _words_a_minute(every: Sequence[Heard], least: float) -> float:
    minutes = sum(heard.transcript.duration for heard in every) / 60
    return sum(len(only_speech(heard.transcript, least).words) for heard in every) / minutes
