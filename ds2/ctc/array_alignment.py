"""Viterbi alignment of arrays: where in the recording each token of a known transcript is spoken."""

import math
from typing import NamedTuple

import numpy as np

from ds2.ctc.band import required
from ds2.ctc.viterbi_cpu import best_path
from ds2.text import BLANK
from ds2.utils.errors import InputError

STAR = -1  # a target that stands for speech of any content and length
STAR_COST = 0.5  # nats per frame below the most probable output: high enough that the star does not take known words


class ArrayAlignment(NamedTuple):
    """The most probable path that spells L targets, as in `ds2.ctc.alignment.Alignment`, in arrays."""

    starts: np.ndarray  # (L,) int64, first frame of each token
    ends: np.ndarray  # (L,) int64, one past its last
    confidences: np.ndarray  # (L,) float32, mean probability of the token over its frames; NaN for a star
    log_prob: float


def align_arrays(log_probs: np.ndarray, targets: np.ndarray, blank: int = BLANK) -> ArrayAlignment:
    """`ds2.ctc.alignment.ctc_align` of (T, V) float32 log-probabilities and (L,) tokens.

    Raises:
        InputError: the targets need more frames than there are, or one of them has probability 0 wherever it
            could be.
        ValueError: shapes or tokens do not fit, or there is a NaN.
    """
    check_alignable(log_probs.shape, targets, blank, bool(np.isnan(log_probs).any()))
    scores = np.ascontiguousarray(log_probs, np.float32)
    # Untranscribed speech is one more output, a little less probable than the best one of each frame.
    if (targets == STAR).any():
        scores = np.concatenate([scores, scores.max(1, keepdims=True) - np.float32(STAR_COST)], 1)
    labels = numbered(targets, log_probs.shape[1], len(scores))
    path, log_prob = best_path(scores, labels, blank)
    spoken = path >= 0
    return along_path(path, np.exp(scores[spoken, labels[path[spoken]].astype(np.int64)]), targets, float(log_prob))


def numbered(targets: np.ndarray, outputs: int, frames: int) -> np.ndarray:
    """(L,) uint64 labels of the targets; that of a star is the number of outputs, one beyond the last.

    Raises:
        InputError: they need more frames: known before the search, which would only find no path.
    """
    labels = np.where(targets == STAR, outputs, targets).astype(np.uint64)
    if (needed := required(labels)) > frames:
        raise InputError(f"{len(labels)} tokens need at least {needed} frames, the recording has {frames}")
    return labels


def along_path(path: np.ndarray, probabilities: np.ndarray, targets: np.ndarray, log_prob: float) -> ArrayAlignment:
    """The alignment that belongs to a path.

    Args:
        path: (T,) the place of the target in each frame, -1 in pauses.
        probabilities: (S,) of the targets in the S frames that are no pauses.
        targets: (L,) tokens.

    Raises:
        InputError: `log_prob` is that of no path.
    """
    if log_prob == -math.inf:
        raise InputError("the transcript has probability 0: some token is impossible in every frame that it could take")
    (frames,) = np.nonzero(path >= 0)
    places, count = path[frames], len(targets)
    starts, ends = np.full(count, len(path)), np.zeros(count, np.int64)
    np.minimum.at(starts, places, frames)
    np.maximum.at(ends, places, frames + 1)
    confidences = np.bincount(places, probabilities, count) / (ends - starts)
    return ArrayAlignment(starts, ends, np.where(targets == STAR, np.nan, confidences).astype(np.float32), log_prob)


def check_alignable(shape: tuple[int, ...], targets: np.ndarray, blank: int, has_nan: bool) -> None:
    """Raises ValueError unless (T, V) log-probabilities of this shape and (L,) targets fit each other."""
    if len(shape) != 2 or targets.ndim != 1:
        raise ValueError(f"log_probs must be (T, V) and targets (L,), got {tuple(shape)} and {targets.shape}")
    outputs = shape[1]
    if not 0 <= blank < outputs:
        raise ValueError(f"blank {blank} must be one of the {outputs} outputs")
    if has_nan:
        raise ValueError("log_probs contain NaN")
    if targets.size and bool(((targets >= outputs) | (targets < STAR) | (targets == blank)).any()):
        raise ValueError(f"targets must be 0..{outputs - 1} or STAR without the blank {blank}")
