"""Conversion between a decoder's token indices and text, for models whose tokens are given as strings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ds2.decoder.config import HOT_BOOST
from ds2.decoder.hot_phrases import words_of
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.lexicon import Lexicon
from ds2.lm.ngram import NGram
from ds2.lm.orders import BEGIN, END, UNKNOWN
from ds2.utils.errors import ParameterError

BLANKS = ("", "<blank>", "<pad>", "[PAD]")  # names of the blank in other toolkits
SPACES = (" ", "|")


@dataclass(frozen=True)
class TimedWord:
    """A word, and its output frames start..end - 1."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class TextHypothesis:
    """One hypothesis for an utterance; the score is the natural log of the probability that the decoder gives it."""

    text: str
    words: tuple[TimedWord, ...]
    score: float


class Alphabet:
    """The tokens of a model's outputs, in the decoder's order: the blank first."""

    def __init__(self, tokens: Sequence[str]):
        """Raises ParameterError unless each token occurs once and one is the blank, called "" or <blank> or <pad>."""
        blank = next((tokens.index(name) for name in BLANKS if name in tokens), None)
        if blank is None or len(set(tokens)) != len(tokens):
            raise ParameterError("tokens", f"each must occur once, and one be the blank, such as {BLANKS[0]!r}")
        self.order = [blank, *(index for index in range(len(tokens)) if index != blank)]
        space = next((name for name in SPACES if name in tokens), None)
        self.tokens = ["", *(" " if tokens[index] == space else tokens[index] for index in self.order[1:])]
        self.index = {token: index for index, token in enumerate(self.tokens)}

    def hypothesis(self, found: Hypothesis) -> TextHypothesis:
        """A decoder's hypothesis as text."""
        timed = list(zip((self.tokens[token] for token in found.tokens), found.starts, found.ends, strict=True))
        groups = (list(group) for space, group in groupby(timed, lambda token: token[0] == " ") if not space)
        words = tuple(TimedWord("".join(text for text, _, _ in g), g[0][1], g[-1][2]) for g in groups)
        return TextHypothesis(" ".join(word.text for word in words), words, found.score)

    def lexicon_for(
        self, lm: NGram | None, hot: Mapping[str, float] | Sequence[str]
    ) -> tuple[Lexicon | None, np.ndarray | None]:
        """The lexicon of the language model's words and the hot words, and (W,) their numbers in the language model.

        Raises:
            ParameterError: the tokens cannot spell a word, or hot words come with a language model over tokens.
        """
        boosts = dict(hot) if isinstance(hot, Mapping) else dict.fromkeys(hot, HOT_BOOST)
        words = [word for word in lm.words if word not in (BEGIN, END, UNKNOWN)] if lm is not None else []
        # A language model over the tokens themselves, such as Mandarin characters, needs no lexicon.
        if lm is not None and all(word in self.index for word in words):
            if boosts:
                raise ParameterError("hot", "cannot be combined with a language model over tokens")
            absent = {" ": -1, "": 0}
            return None, np.array([lm.index.get(token, absent.get(token, 0)) for token in self.tokens], np.int32)
        # Otherwise the lexicon holds its words and the hot ones, as far as the tokens can spell them.
        if unspelt := [word for word in words_of(boosts) if not self._spells(word)]:
            raise ParameterError("hot", f"{unspelt[0]}: the tokens do not spell it")
        spelt = list(dict.fromkeys([*filter(self._spells, words), *words_of(boosts)]))
        if not spelt:
            if lm is not None:
                raise ParameterError("lm", f"the tokens do not spell its words, such as {lm.words[-1]!r}")
            return None, None
        if " " not in self.index:
            raise ParameterError("tokens", "words need a token for the space between them, ' ' or '|'")
        spellings = [[self.index[letter] for letter in word] for word in spelt]
        lexicon = Lexicon(spellings, self.index[" "]).with_hot(boosts, {word: [n] for n, word in enumerate(spelt)})
        return lexicon, None if lm is None else np.array([lm.index.get(word, 0) for word in spelt], np.int32)

    def _spells(self, word: str) -> bool:
        return bool(word) and all(letter in self.index for letter in word)
