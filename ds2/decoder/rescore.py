"""The second pass: weighs the n-best hypotheses with a language model that is too slow or too large for the search."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ds2.decoder.hypothesis import Hypothesis
from ds2.lm.sentence_model import SentenceModel


@dataclass(frozen=True)
class Rescorer:
    """Sorts hypotheses by log p_ctc + kept * gains + weight * log p_lm + bonus * words.

    Attributes:
        kept: share that stays of everything that the search has added for words: 0 if the model takes the place of the
            search's, 1 if both are combined.
    """

    lm: SentenceModel
    weight: float
    bonus: float
    kept: float = 0.0

    def __call__(self, hypotheses: Sequence[Hypothesis], sentences: Sequence[Sequence[str]]) -> list[Hypothesis]:
        """The hypotheses, best first; equal ones keep their order.

        Args:
            sentences: the words of each hypothesis.
        """
        weighed = []
        for hypothesis, words, log_prob in zip(hypotheses, sentences, self.lm.scores(sentences), strict=True):
            gains = self.kept * hypothesis.gains + self.weight * log_prob + self.bonus * len(words)
            score = hypothesis.score - hypothesis.gains + gains
            weighed.append(dataclasses.replace(hypothesis, score=score, gains=gains))
        return sorted(weighed, key=lambda hypothesis: -hypothesis.score)
