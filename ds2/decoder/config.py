"""The configuration of the beam search."""

from dataclasses import dataclass

from ds2.utils.config import require

MOST = 1_000_000  # largest number of prefixes, symbols and hypotheses that a configuration may request
HOT_BOOST = 5.0  # nats that a hot word gains if it names no number
CLOSED_BEAM_WIDTH = 16  # enough if few words are possible
LARGEST_WEIGHT = 1000.0  # of a configuration: sums of larger ones could overflow


@dataclass(frozen=True)
class BeamConfig:
    """The width of the search, and the weights of its scores."""

    beam_width: int = 100  # prefixes kept after each frame
    score_threshold: float = 8.0  # nats below the best at which a prefix is dropped; inf: never
    cumulative_probability: float = 0.999  # a frame's symbols are tried, best first, until their sum reaches this
    max_symbols: int = 40  # largest number of symbols tried; the blank and the space are always tried
    blank_skip: float = 1.0  # a frame whose blank is at least this probable adds no label; 1: search every frame
    lm_weight: float = 0.7  # weight of the language model's natural log-probability
    word_bonus: float = 1.5  # nats for each word, or token of a token model
    unknown_score: float = -6.0  # nats for a word that the lexicon does not hold
    unknown_letter_score: float = -1.5  # nats for each of its letters beyond the longest beginning in the lexicon
    closed: bool = False  # find only the words of the lexicon
    recombine: bool = False  # of the prefixes that continue alike keep only the best one
    eager: bool = False  # if closed: a word that no longer one continues is scored with its last label, not after it
    nbest: int = 1  # hypotheses returned

    def __post_init__(self) -> None:
        sizes = ("beam_width", "max_symbols", "nbest")
        require(self, f"at least 1 and at most {MOST:,}", lambda size: 1 <= size <= MOST, *sizes)
        for name in ("cumulative_probability", "blank_skip"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {getattr(self, name)}")
        weights = ("lm_weight", "word_bonus", "unknown_score", "unknown_letter_score")
        rule = f"from {-LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
        require(self, rule, lambda nats: abs(nats) <= LARGEST_WEIGHT, *weights)
        require(self, "above 0", lambda nats: nats > 0, "score_threshold")
