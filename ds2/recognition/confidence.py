"""How sure the recogniser is of a word: from its tokens alone, or from the n-best."""

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ds2.recognition.words import PlacedText, Word

LEAST_PROBABILITY = 1e-9  # of a token, so that its logarithm is finite
MOST_MARGIN = 6.0  # nats
DOUBTFUL_CONFIDENCE = 0.5  # an aligned word below it is doubtful
DOUBTFUL_SECONDS = 4.0  # a longer word is doubtful: the audio may hold other words there

# The log-odds that a word of a text is said where it was aligned: at a perfect score, per nat of the spelling's score,
# per nat of the number of tokens. Fitted to 26,800 words of which 8 % were wrong, the bundle english on its dev sets.
SAID, SAID_SPELLING, SAID_TOKENS = 3.6, 1.25, 1.0


def is_doubtful(word: Word) -> bool:
    """Whether a word of a text was probably not said where it was aligned, or takes too long."""
    return word.confidence < DOUBTFUL_CONFIDENCE or word.end - word.start > DOUBTFUL_SECONDS


def geometric_mean(probabilities: Sequence[float]) -> float:
    """The confidence of a word from the probabilities of its tokens."""
    logs = [math.log(max(probability, LEAST_PROBABILITY)) for probability in probabilities]
    return math.exp(sum(logs) / len(logs))


def said_probabilities(spelling: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
    """(W,) `spelling_scores` and numbers of tokens of aligned words -> (W,) probabilities that they are said there."""
    return logistic(SAID + SAID_SPELLING * spelling + SAID_TOKENS * np.log(tokens))


def logistic(log_odds: np.ndarray) -> np.ndarray:
    """(...) log-odds -> (...) probabilities."""
    probabilities: np.ndarray = 0.5 * (1 + np.tanh(log_odds / 2))
    return probabilities


def presence(rows: Sequence[Sequence[PlacedText]]) -> np.ndarray:
    """(K, W): whether each of the n-best has each word of the first one at its place.

    Args:
        rows: the words of each of the n-best, in order of time; the best one first.
    """
    found = np.ones((len(rows), len(rows[0])), bool)
    for own, row in zip(found, rows, strict=True):
        same, spans = set(row), None
        for number, word in enumerate(rows[0]):
            if word not in same:  # most are: the n-best differ in a few words
                spans = spans or _spans_of_texts(row)
                own[number] = _overlaps(spans.get(word[0], []), word)
    return found


def _spans_of_texts(row: Sequence[PlacedText]) -> dict[str, list[tuple[int, int]]]:
    spans = defaultdict(list)
    for text, start, end in row:
        spans[text].append((start, end))
    return spans


def posteriors(present: np.ndarray, scores: Sequence[float]) -> np.ndarray:
    """(K, W) `presence` and the natural log-probability of each of the n-best -> (W,) the share of their probability
    that has the word there."""
    weights = np.exp(np.array(scores) - max(scores))
    shares: np.ndarray = weights @ present / weights.sum()
    return shares


def margins(present: np.ndarray, scores: Sequence[float]) -> np.ndarray:
    """(K, W) `presence` and natural log-probabilities, best first -> (W,) nats by which the best one beats the best one
    without the word: at most MOST_MARGIN, which is also that of a word that none lacks."""
    without = np.where(present, -math.inf, np.array(scores)[:, None]).max(0)
    behind: np.ndarray = np.minimum(scores[0] - without, MOST_MARGIN)
    return behind


def _overlaps(spans: list[tuple[int, int]], word: PlacedText) -> bool:
    """Whether one of the spans, in order of time, overlaps the word: the last that begins before the word's end."""
    _, start, end = word
    before = bisect.bisect_left(spans, (end,))
    return before > 0 and start < spans[before - 1][1]
