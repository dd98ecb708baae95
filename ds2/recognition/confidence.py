"""How sure the recogniser is of a word: from its tokens alone, or from the n-best."""

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # transcript.py imports this module
    from ds2.recognition.transcript import Word

LEAST_PROBABILITY = 1e-9  # of a token, so that its logarithm is finite


def geometric_mean(probabilities: Sequence[float]) -> float:
    """The confidence of a word from the probabilities of its tokens."""
    logs = [math.log(max(probability, LEAST_PROBABILITY)) for probability in probabilities]
    return math.exp(sum(logs) / len(logs))


def posteriors(rows: "Sequence[Sequence[Word]]", scores: Sequence[float]) -> list[float]:
    """The probability of each word of the first row: the share of the n-best's probability that has it there.

    Args:
        rows: the words of each of the n-best, in order of time; the best one first.
        scores: natural log-probability of each row.
    """
    weights = [math.exp(score - max(scores)) for score in scores]
    found = [0.0] * len(rows[0])
    for row, weight in zip(rows, weights, strict=True):
        spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for word in row:
            spans[word.text].append((word.start, word.end))
        for place, word in enumerate(rows[0]):
            found[place] += weight * _overlaps(spans.get(word.text, []), word)
    return [weight / sum(weights) for weight in found]


def _overlaps(spans: list[tuple[float, float]], word: "Word") -> bool:
    """Whether one of the spans, in order of time, overlaps the word: the last that begins before the word's end."""
    before = bisect.bisect_left(spans, (word.end,))
    return before > 0 and word.start < spans[before - 1][1]
