"""The second pass: rescores the n-best hypotheses with a language model that is too large for the search."""

import dataclasses
from collections.abc import Sequence

from ds2.decoder.hypothesis import Hypothesis
from ds2.lm.sentence_model import SentenceModel


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
