"""The result of a decoder, and a check of the lengths that every decoder receives."""

from dataclasses import dataclass

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
    """

    tokens: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
    score: float = 0.0
    gains: float = 0.0


def frame_counts(log_probs: Tensor, lengths: Tensor) -> list[int]:
    """The (B,) lengths of (B, T, V) log-probabilities as integers.

    Raises:
        ValueError: there is not one length for each utterance, or a length is outside 0..T.
    """
    utterances, frames = log_probs.shape[:2]
    counts: list[int] = lengths.tolist()
    if len(counts) != utterances or any(not 0 <= count <= frames for count in counts):
        raise ValueError(f"lengths: expected {utterances} numbers of frames from 0 to {frames}, got {counts}")
    return counts
