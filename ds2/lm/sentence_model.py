"""Models that score whole sentences, in any form of file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ds2.lm.kenlm import KenLMModel, is_kenlm_binary
from ds2.lm.ngram import NGram


class SentenceModel(Protocol):
    """A model that scores whole sentences: an NGram, a KenLMModel, or a NeuralModel."""

    def score(self, words: Sequence[str]) -> float:
        """Natural log-probability of a sentence between <s> and </s>."""

    def scores(self, nbests: Sequence[Sequence[Sequence[str]]]) -> list[list[float]]:
        """Those of the sentences of each n-best, the best first."""

    def knows(self, word: str) -> bool:
        """Whether the model has a probability for a word."""


def load_sentence_model(path: Path) -> SentenceModel:
    """Reads a language model in any of its forms.

    Raises:
        InputError: the file cannot be read.
    """
    return KenLMModel(path) if is_kenlm_binary(path) else NGram.load(path)
