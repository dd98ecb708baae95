"""What a decoder returns."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One reading of an utterance.

    Attributes:
        tokens: L token indices, no blanks.
        starts, ends: token i fills the output frames starts[i]..ends[i] - 1.
        confidences: probability of each token at its best frame, 0 to 1.
        score: natural log of the probability that the decoder gives to the whole.
    """

    tokens: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
    score: float = 0.0
