"""The search of a bundle without hot words: what they have hidden is heard by it."""

import functools
from dataclasses import replace

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.recognition.transcript import Transcript
from ds2.text import join_words


class PlainSearch:
    """Searches a segment as if there were no hot words."""

    def __init__(self, beam: BeamDecoder | PronouncingDecoder, tokens: int):
        """`beam`: the search, with hot words or without; `tokens`: the number of the model's first outputs."""
        self.beam, self.tokens = beam, tokens

    @functools.cached_property
    def plain(self) -> BeamDecoder | PronouncingDecoder:
        """The search without hot words; few recordings need it, so it is made late."""
        return self.beam.without_hot()

    def __call__(self, log_probs: np.ndarray) -> list[Hypothesis]:
        """(T, V) log-probabilities, or more with phones -> the best hypotheses, best first."""
        if isinstance(self.plain, PronouncingDecoder):
            return self.plain.search([log_probs])[0]
        return self.plain(log_probs[None, :, : self.tokens], np.array([len(log_probs)]))[0]


def with_hidden_words(heard: Transcript, plain: Transcript) -> Transcript:
    """The transcript of a segment, and words of its `plain` one where it has none."""
    hidden = (
        word for word in plain.words if not any(it.start < word.end and word.start < it.end for it in heard.words)
    )
    words = tuple(sorted((*heard.words, *hidden), key=lambda word: word.start))
    return replace(heard, text=join_words(word.text for word in words), words=words)
