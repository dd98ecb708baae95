"""Confidence that means something: of words with confidence 0.8 four in five are right.

A logistic regression turns the evidence of a word into the probability that it is right. `ds2 calibrate` fits it on
utterances that the model was not trained on; the bundle holds its weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ds2.decoder.hypothesis import Hypothesis
from ds2.lm.ngram import NGram
from ds2.recognition.confidence import logistic
from ds2.recognition.evidence import FEATURES, Found, word_evidence
from ds2.recognition.segments import TranscriptSegment, group_words
from ds2.recognition.transcript import Transcript, with_confidences
from ds2.recognition.words import word_spans
from ds2.text import Tokenizer, join_words
from ds2.utils.errors import InputError

WEIGHTS = 4 * len(FEATURES)
LARGEST = 1e6  # of a weight: with larger ones the odds of a word may be infinite minus infinite
RIDGE = 10.0  # penalty on the squared weights of standardised evidence, in words
ITERATIONS = 30  # of Newton's method, far more than it needs
BINS = 10  # of confidence, in which it is compared with the share of right words
PAUSE = 0.6  # seconds without a word that end a segment; live, they end an utterance


@dataclass(frozen=True)
class Calibration:
    """A logistic regression, and what counts as no speech.

    Attributes:
        weights: of the evidence, in the order of `word_evidence`.
        bias: log-odds of a word without evidence.
        least: a segment between pauses whose words have a lower mean confidence is no speech.
    """

    weights: tuple[float, ...]
    bias: float
    least: float = 0.0

    def __post_init__(self) -> None:
        values = (*self.weights, self.bias, self.least)
        if len(self.weights) != WEIGHTS or not all(abs(value) <= LARGEST for value in values):  # which NaN fails, too
            raise InputError(f"the bundle's calibration needs {WEIGHTS} weights up to {LARGEST:g}; calibrate it again")

    def __call__(self, evidence: np.ndarray) -> np.ndarray:
        """(W, WEIGHTS) -> (W,) probabilities that the words are right."""
        return logistic(evidence @ np.array(self.weights) + self.bias)


@dataclass(frozen=True)
class Judge:
    """Gives the words of a transcript their confidence, and drops what is no speech."""

    calibration: Calibration
    tokenizer: Tokenizer
    phones: int  # outputs that follow those of the tokens
    lm: NGram | None

    def __call__(
        self, transcript: Transcript, hypothesis: Hypothesis, margins: np.ndarray, log_probs: np.ndarray
    ) -> Transcript:
        """The transcript of a hypothesis, the `margins` of its words, and the log-probabilities in which it was found:
        (T, V), or (T, V + P + Q) with phones and the scores of biphones."""
        confidences = self.calibration(self.evidence(transcript, hypothesis, margins, log_probs))
        return only_speech(with_confidences(transcript, confidences), self.calibration.least)

    def evidence(
        self, transcript: Transcript, hypothesis: Hypothesis, margins: np.ndarray, log_probs: np.ndarray
    ) -> np.ndarray:
        """(W, WEIGHTS); the words' confidences are their shares among the n-best."""
        texts = [self.tokenizer.tokens[token] for token in hypothesis.tokens]
        spans = list(word_spans(texts))
        found = Found(
            hypothesis,
            [word.text for word in transcript.words],
            spans,
            [hypothesis.tokens[first:last] for first, last in spans],
            [word.confidence for word in transcript.words],
            margins,
        )
        tokens = len(self.tokenizer)
        return word_evidence(found, log_probs[:, :tokens], log_probs[:, tokens : tokens + self.phones], self.lm)


def only_speech(transcript: Transcript, least: float) -> Transcript:
    """The transcript without the segments between pauses in which the words' mean confidence is below `least`."""
    segments = list(group_words(transcript.text, transcript.words, _ends_segment))
    kept = [segment for segment in segments if np.mean([word.confidence for word in segment.words]) >= least]
    if len(kept) == len(segments):
        return transcript
    words = tuple(word for segment in kept for word in segment.words)
    dropped = transcript.dropped + len(transcript.words) - len(words)
    return replace(transcript, text=join_words(segment.text for segment in kept), words=words, dropped=dropped)


def _ends_segment(segment: TranscriptSegment, longer: TranscriptSegment) -> bool:
    return longer.words[-1].start - segment.end > PAUSE


def fit(evidence: np.ndarray, right: np.ndarray) -> Calibration:
    """Fits the regression to (N, WEIGHTS) evidence and (N,) whether each word is right, by Newton's method.

    Raises:
        InputError: all words are right, or all are wrong.
    """
    if right.all() or not right.any():
        raise InputError("calibration needs right words and wrong ones; name other utterances")
    mean, scale = evidence.mean(0), evidence.std(0)
    scale[scale < 1e-9] = np.inf  # what never changes gets no weight
    inputs = np.hstack([(evidence - mean) / scale, np.ones((len(evidence), 1))])
    ridge = np.append(np.full(evidence.shape[1], RIDGE), 1e-6)
    weights = np.zeros(inputs.shape[1])
    for _ in range(ITERATIONS):
        found = logistic(inputs @ weights)
        slope = inputs.T @ (found - right) + ridge * weights
        curvature = (inputs * (found * (1 - found))[:, None]).T @ inputs + np.diag(ridge)
        weights -= np.linalg.solve(curvature, slope)
    raw = weights[:-1] / scale
    return Calibration(tuple(raw.tolist()), float(weights[-1] - raw @ mean))


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> list[tuple[float, float, int]]:
    """For each tenth of confidence that occurs: the mean confidence, the share of right words, the number of words."""
    confidence, correct = np.array(confidences), np.array(right, bool)
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [(confidence[places == number], correct[places == number]) for number in range(BINS)]
    return [(float(each.mean()), float(hits.mean()), len(each)) for each, hits in bins if len(each)]


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3); 0 where there are no words."""
    bins = reliability(confidences, right)
    return sum(abs(mean - share) * count for mean, share, count in bins) / max(1, len(confidences))


def area_under_roc(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """The probability that a right word has a higher confidence than a wrong one; NaN without words of both kinds."""
    confidence, correct = np.array(confidences), np.array(right, bool)
    hits, misses = np.sort(confidence[correct]), np.sort(confidence[~correct])
    if not (len(hits) and len(misses)):
        return math.nan
    below = np.searchsorted(misses, hits, "left") + np.searchsorted(misses, hits, "right")
    return float(below.sum() / (2 * len(hits) * len(misses)))
