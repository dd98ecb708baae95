"""What a person may ask of the decoder. A module by itself: the command line reads it before anything heavy."""

import math
from dataclasses import dataclass
from pathlib import Path

import tyro

from ds2.utils.errors import InputError


@dataclass(frozen=True)
class DecoderOptions:
    """What is asked of the decoder; None and nothing leave it to the bundle.

    Without a language model, a vocabulary and hot words of its own a bundle is decoded greedily.

    Attributes:
        lm: Language model for the search: ARPA, plain or .gz, or the compiled form; of words, or of the model's tokens.
        lm_weight: Of the language model's natural log-probability.
        word_bonus: Nats for each word; for each token where the language model is over tokens.
        beam: Width of the prefix beam search; 0 decodes greedily.
        hot: Word to be heard more readily, or WORD=NATS; may be repeated.
        rescore: Larger language model that weighs the best hypotheses again; KenLM's binary form as well.
    """

    lm: Path | None = None
    lm_weight: float | None = None
    word_bonus: float | None = None
    beam: int | None = None
    hot: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    rescore: Path | None = None

    def __post_init__(self) -> None:
        if self.beam is not None and self.beam < 0:
            raise InputError(f"--beam {self.beam}: must be at least 1, or 0 to decode greedily")
        for name, value in (("--lm-weight", self.lm_weight), ("--word-bonus", self.word_bonus)):
            if value is not None and not math.isfinite(value):
                raise InputError(f"{name} {value}: must be a finite number")
        if self.beam == 0 and (self.lm or self.hot or self.rescore):
            raise InputError("--beam 0: decodes greedily, without a language model; leave it out")


DEFAULT_OPTIONS = DecoderOptions()
