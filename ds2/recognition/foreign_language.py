"""Recordings in another language than the model's: it finds words there as well, but hardly one is right.

The calibrated confidence of words is the probability that they are right, so its mean says what share of a recording's
words is right. Of few words the mean scatters: it must be the lower, the fewer they are.
"""

import math
from collections.abc import Sequence

from ds2.recognition.words import Word
from ds2.utils.model_names import packaged_language

LEAST_RIGHT = 0.65  # share of right words below which a long recording is in another language
SEVERAL = 4  # words: noise is heard as one or two
SCATTER = 0.8  # of the confidence of a word: more than twice its standard deviation


def foreign_warning(words: Sequence[Word], dropped: int, model: str) -> str:
    """A line on words with calibrated confidence, which can hardly be of the model's language; empty if they can.

    Args:
        dropped: the number of words that were left out because they are hardly speech.
    """
    known = packaged_language(model)[1] or "the speech that the model has learnt"
    if not words:
        return f"nothing sounds like {known}: {dropped} doubtful words were left out" if dropped >= SEVERAL else ""
    right = sum(word.confidence for word in words) / len(words)
    if right + SCATTER / math.sqrt(len(words)) >= LEAST_RIGHT:
        return ""
    return f"does not sound like {known}: {right:.0%} of the words are likely to be right"
