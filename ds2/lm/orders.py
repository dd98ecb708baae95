"""The n-grams of a language model, order by order, as read from an ARPA file or estimated from text."""

from dataclasses import dataclass

import numpy as np

from ds2.text import MODEL_MARKS

BEGIN, END, UNKNOWN = MODEL_MARKS
WORD_BITS = 32  # of the key of an n-gram: prefix << WORD_BITS | word


@dataclass(frozen=True)
class NGramOrder:
    """All n-grams of one order, sorted by (prefix, word).

    Attributes:
        prefix: (K,) int64, the n-gram of the order below that the first words form; 0 for single words.
        word: (K,) int64, the last word.
        log_prob: (K,) log-probability of the last word after the others.
        backoff: (K,) log of the weight of shorter contexts after this one; 0 in the highest order.
    """

    prefix: np.ndarray
    word: np.ndarray
    log_prob: np.ndarray
    backoff: np.ndarray
