"""Fits the calibration of a bundle to utterances that it was not trained on, and to sounds without speech."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from ds2.bundle import Bundle
from ds2.data.audio import read_audio
from ds2.data.manifest import Utterance
from ds2.data.no_speech import sounds
from ds2.metrics import ErrorCounts, word_errors
from ds2.recognition.calibration import WEIGHTS, Calibration, fit, only_speech
from ds2.recognition.evaluate import right_words
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, with_confidences
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError

NEUTRAL = Calibration((0.0,) * WEIGHTS, 0.0)
NOISE_SECONDS, NOISE_SEEDS = 10.0, range(8)  # of each kind of synthesised sound, and how many of each
THRESHOLDS = tuple(round(0.01 * step, 2) for step in range(21))  # up to one word in five right
MOST_LOST = 0.002  # of the words of a data set: by so much its error rate may rise
RARE = 0.2  # false words a minute that are as good as none


@dataclass(frozen=True)
class Heard:
    """A recording: what was said, what was recognised, and the (W, WEIGHTS) evidence for it."""

    reference: str
    transcript: Transcript
    evidence: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """A calibration; words a minute of noise and the error rate of each data set without and with its threshold."""

    calibration: Calibration
    noise: tuple[float, float]
    error_rates: list[tuple[float, float]]
    skipped: list[str]


def tune_confidence(
    recognizer: Recognizer,
    data_sets: Sequence[Sequence[Utterance]],
    noise: Sequence[Path],
    on_done: Callable[[], None] = lambda: None,
) -> Outcome:
    """Fits the confidence of words, then the least confidence of speech.

    The threshold is the lowest one by which noise gives as good as no words, unless the error rate of a data set would
    rise by more than MOST_LOST.

    Args:
        recognizer: of a bundle that is `calibrated` by NEUTRAL.
        noise: recordings without speech, besides the synthesised ones.
        on_done: called after each utterance.

    Raises:
        InputError: no utterance can be read, or nothing can be learnt from them.
    """
    skipped: list[str] = []
    speech = [list(_listen(recognizer, utterances, skipped, on_done)) for utterances in data_sets]
    silence = [hear(recognizer, "", samples) for samples in no_speech(recognizer.sample_rate, noise)]
    every = [heard for each in (*speech, silence) for heard in each]
    if not any(speech):
        raise InputError(f"{skipped[0]} (and so on: no utterance can be read)" if skipped else "no utterances")
    right = [each for heard in every for each in right_words(heard.reference, heard.transcript)]
    calibration = fit(np.concatenate([heard.evidence for heard in every]), np.array(right, bool))
    judged = [[judge(heard, calibration) for heard in each] for each in (*speech, silence)]
    least = _choose_threshold(judged[:-1], judged[-1])
    pairs = [(_errors(each, 0.0).rate, _errors(each, least).rate) for each in judged[:-1]]
    noise_words = _words_a_minute(judged[-1], 0.0), _words_a_minute(judged[-1], least)
    return Outcome(replace(calibration, least=least), noise_words, pairs, skipped)


def calibrated(bundle: Bundle, calibration: Calibration) -> Bundle:
    """The bundle with another calibration."""
    return replace(bundle, metadata={**bundle.metadata, "confidence": to_dict(calibration)})


def no_speech(sample_rate: int, recordings: Sequence[Path]) -> Iterator[Tensor]:
    """(N,) samples of each synthesised sound and each recording."""
    for seed in NOISE_SEEDS:
        yield from (samples for _, samples in sounds(NOISE_SECONDS, sample_rate, seed))
    for path in recordings:
        yield read_audio(path, sample_rate)[0]


def hear(recognizer: Recognizer, reference: str, samples: Tensor) -> Heard:
    """Transcribes (N,) samples, and keeps the evidence."""
    windows = recognizer.cutter.windows_of_samples(samples.numpy())
    log_probs = np.concatenate([recognizer.log_probs([window])[0] for window in windows])
    return _examine(recognizer, reference, log_probs, len(samples) / recognizer.sample_rate)


def judge(heard: Heard, calibration: Calibration) -> Heard:
    """The same with calibrated confidences."""
    return replace(heard, transcript=with_confidences(heard.transcript, calibration(heard.evidence)))


def _listen(
    recognizer: Recognizer, utterances: Sequence[Utterance], skipped: list[str], on_done: Callable[[], None]
) -> Iterator[Heard]:
    results = recognizer.log_probs_of_files(utterance.segment for utterance in utterances)
    for utterance, (_, duration, result) in zip(utterances, results, strict=True):
        on_done()
        if isinstance(result, InputError):
            skipped.append(str(result))
        else:
            yield _examine(recognizer, utterance.text, result, duration)


def _examine(recognizer: Recognizer, reference: str, log_probs: np.ndarray, duration: float) -> Heard:
    [nbest] = recognizer.nbest([log_probs])
    return Heard(reference, *recognizer.finish.examine(nbest, log_probs, duration))


def _choose_threshold(speech: Sequence[Sequence[Heard]], silence: Sequence[Heard]) -> float:
    """The lowest threshold with as good as no words in silence, or else the highest that loses few words of speech."""
    allowed = [least for least in THRESHOLDS if all(_lost(each, least) <= MOST_LOST for each in speech)]
    return min((least for least in allowed if _words_a_minute(silence, least) <= RARE), default=max(allowed))


def _lost(every: Sequence[Heard], least: float) -> float:
    return _errors(every, least).rate - _errors(every, 0.0).rate


def _errors(every: Sequence[Heard], least: float) -> ErrorCounts:
    texts = ((heard.reference, only_speech(heard.transcript, least).text) for heard in every)
    return sum((word_errors(*pair) for pair in texts), ErrorCounts())


def _words_a_minute(every: Sequence[Heard], least: float) -> float:
    minutes = sum(heard.transcript.duration for heard in every) / 60
    return sum(len(only_speech(heard.transcript, least).words) for heard in every) / minutes
