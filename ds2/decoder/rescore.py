"""The second pass: weighs the n-best hypotheses with a language model that is too slow or too large for the search."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ds2.decoder.hypothesis import Hypothesis
from ds2.lm.sentence_model import SentenceModel


@dataclass(frozen=True)
class Rescorer:
    """Sorts hypotheses by log p_ctc + boosts + kept * others + weight * log p_lm + bonus * words.

    Attributes:
        kept: share that stays of everything else that the search has added for words: 0 if the model takes the place of
            the search's, 1 if both are combined. Hot words keep their boosts: no language model knows of them.
    """

    lm: SentenceModel
    weight: float
    bonus: float
    kept: float = 0.0

    def __call__(
        self, nbests: Sequence[Sequence[Hypothesis]], sentences: Sequence[Sequence[Sequence[str]]]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each segment, best first; equal ones keep their order.

        Args:
            sentences: the words of each hypothesis of each segment.
        """
        # All sentences at once: a neural model multiplies larger matrices.
        log_probs = self.lm.scores(sentences)
        return [
            sorted(map(self._weighed, *each), key=lambda found: -found.score)
            for each in zip(nbests, sentences, log_probs, strict=True)
        ]

    def _weighed(self, hypothesis: Hypothesis, words: Sequence[str], log_prob: float) -> Hypothesis:
        others = self.kept * (hypothesis.gains - hypothesis.boosts)
        gains = hypothesis.boosts + others + self.weight * log_prob + self.bonus * len(words)
        return dataclasses.replace(hypothesis, score=hypothesis.score - hypothesis.gains + gains, gains=gains)
