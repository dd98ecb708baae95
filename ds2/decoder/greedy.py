"""Greedy decoding: the most probable token of each frame, repeats merged, blanks dropped (Graves et al. 2006)."""

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from ds2.decoder.hypothesis import Hypothesis, frame_counts
from ds2.text import BLANK

if TYPE_CHECKING:
    from torch import Tensor


def greedy(log_probs: "Tensor | np.ndarray", lengths: "Tensor | np.ndarray") -> list[Hypothesis]:
    """(B, T, V) log-probabilities on any device, (B,) frames -> one hypothesis each: the best single path.

    The score is that path's log-probability, NaN if the log-probabilities hold NaN. The maxima are taken on the
    device; only they, (B, T), leave it.

    Raises:
        ValueError: the lengths do not fit.
    """
    if isinstance(log_probs, np.ndarray):
        best, tokens = log_probs.max(2), log_probs.argmax(2)
    else:
        best, tokens = log_probs.max(dim=2)
    rows = zip(tokens.tolist(), best.tolist(), frame_counts(log_probs, lengths), strict=True)
    return [collapse(path[:length], scores[:length]) for path, scores, length in rows]


def collapse(path: list[int], scores: list[float]) -> Hypothesis:
    """The best path itself, T tokens with their log-probabilities -> its runs, without the blank ones."""
    tokens, starts, ends, confidences = [], [], [], []
    position = 0
    for token, run in itertools.groupby(path):
        start, position = position, position + len(list(run))
        if token != BLANK:
            tokens.append(token)
            starts.append(start)
            ends.append(position)
            confidences.append(math.exp(max(scores[start:position])))
    return Hypothesis(tuple(tokens), tuple(starts), tuple(ends), tuple(confidences), sum(scores, 0.0))
