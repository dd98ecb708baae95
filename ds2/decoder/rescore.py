"""The second pass: rescores the n-best hypotheses with a language model that is too large for the search."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.kenlm_model import KenLMModel, is_kenlm_binary
from ds2.decoder.ngram import NGram


class SentenceModel(Protocol):
    """A model that scores whole sentences: an NGram, or a KenLMModel."""

    def score(self, words: Sequence[str]) -> float:
        """Natural log-probability of a sentence between <s> and </s>."""

    def knows(self, word: str) -> bool:
        """Whether the model has a probability for a word."""


def load_sentence_model(path: Path) -> SentenceModel:
    """Reads a language model in any of its forms.

    Raises:
        InputError: the file cannot be read.
    """
    return KenLMModel(path) if is_kenlm_binary(path) else NGram.load(path)


def rescore(
    hypotheses: Sequence[Hypothesis], sentences: Sequence[Sequence[str]], lm: SentenceModel, weight: float, bonus: float
) -> list[Hypothesis]:
    """Sorts the hypotheses by log p_ctc + weight * log p_lm + bonus * words, best first; equal ones keep their order.

    Args:
        sentences: the words of each hypothesis.
        weight, bonus: replace the search's lm_weight and word_bonus, and everything that the search added for words.
    """
    weighed = []
    for hypothesis, words in zip(hypotheses, sentences, strict=True):
        gains = weight * lm.score(words) + bonus * len(words)
        weighed.append(dataclasses.replace(hypothesis, score=hypothesis.score - hypothesis.gains + gains, gains=gains))
    return sorted(weighed, key=lambda hypothesis: -hypothesis.score)
