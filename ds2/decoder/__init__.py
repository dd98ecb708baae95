"""Log-probabilities -> hypotheses. Knows no audio and no text, only token indices and output frames."""

from ds2.decoder.greedy import greedy
from ds2.decoder.hypothesis import Hypothesis

__all__ = ["Hypothesis", "greedy"]
