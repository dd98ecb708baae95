"""Log-probabilities -> hypotheses. Knows no audio and no text, only token indices and output frames."""

from ds2.decoder.beam import BeamConfig, Lexicon, beam_search
from ds2.decoder.greedy import greedy
from ds2.decoder.hypothesis import Hypothesis

__all__ = ["BeamConfig", "Hypothesis", "Lexicon", "beam_search", "greedy"]
