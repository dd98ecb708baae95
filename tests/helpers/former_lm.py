"""Language models as former versions wrote them."""

import numpy as np

from ds2.lm.automaton import Automaton
from ds2.lm.ngram import NGram
from ds2.lm.packed import STEP


def in_16_bits(model: NGram) -> NGram:
    """The quantised form of former versions, which they wrote and this one reads."""
    flat = model.automaton
    assert isinstance(flat, Automaton)
    first, log_probs, backoffs = flat.first.astype(np.int32), flat.log_probs / STEP, flat.backoffs / STEP
    words, log_probs, backoffs = flat.words.astype(np.uint16), np.round(log_probs), np.round(backoffs)
    rounded = [np.maximum(values, -(2**15)).astype(np.int16) for values in (log_probs, backoffs)]
    return NGram(
        model.words, Automaton(first, words, rounded[0], flat.next, rounded[1], flat.shorter, STEP), model.order
    )
