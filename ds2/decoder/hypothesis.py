"""The result of a decoder, and what every decoder does with its input."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis for an utterance.

    Attributes:
        tokens: L token indices, no blanks.
        starts, ends: token i fills the output frames starts[i]..ends[i] - 1.
        confidences: probability of each token at its best frame, 0 to 1.
        score: natural log of the probability that the decoder gives to the whole.
        gains: the part of the score from the language model, bonuses and boosts; the rest is acoustic.
        hot: whether the search preferred some words, and avoided none.
        boosts: the part of the gains from hot words and phrases.
    """

    tokens: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
    score: float = 0.0
    gains: float = 0.0
    hot: bool = False
    boosts: float = 0.0


def without_last_words(found: Iterable[Hypothesis], space: int) -> Iterator[Hypothesis]:
    """The hypotheses up to their last spaces, which end no text; of those with equal tokens the first."""
    known = set()
    for each in found:
        past = max((place for place, token in enumerate(each.tokens) if token == space), default=0)
        tokens, starts, ends = each.tokens[:past], each.starts[:past], each.ends[:past]
        if tokens not in known:
            known.add(tokens)
            yield replace(each, tokens=tokens, starts=starts, ends=ends, confidences=each.confidences[:past])


def frame_counts(log_probs: "Tensor | np.ndarray", lengths: "Tensor | np.ndarray") -> list[int]:
    """The (B,) lengths of (B, T, V) log-probabilities as integers.

    Raises:
        ValueError: there is not one length for each utterance, or a length is outside 0..T.
    """
    utterances, frames = log_probs.shape[:2]
    counts: list[int] = lengths.tolist()
    if len(counts) != utterances or any(not 0 <= count <= frames for count in counts):
        raise ValueError(f"lengths: expected {utterances} numbers of frames from 0 to {frames}, got {counts}")
    return counts


def float_array(values: "Tensor | np.ndarray") -> np.ndarray:
    """(...) values on any device -> (...) as an array of float32 or float64."""
    if not isinstance(values, np.ndarray):
        half = str(values.dtype) in ("torch.float16", "torch.bfloat16")
        values = (values.float() if half else values).numpy(force=True)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
