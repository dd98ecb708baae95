"""The options of the decoder; this module imports nothing heavy, because the command line reads it first."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ds2.decoder.config import HOT_BOOST, LARGEST_WEIGHT, MOST
from ds2.text import POSSESSIVE, normalize, possessives, split_words
from ds2.utils.errors import ParameterError

EngineName = Literal["auto", "native", "torch", "onnx"]  # what runs the model; auto: torch where it is installed
OfflinePrecision = Literal["float32", "int8"]  # int8: of recurrent layers by torch, of other ones by native
# Nats of a word. Of 8 English texts, 4 recordings with 2 hot words each, 15 nats spoil 1, 20 spoil 5, 25 spoil all.
MOST_BOOST = 15
LEAST_BOOST = -100  # nats of a word or a whole phrase: beyond, probabilities would overflow
MOST_WORDS = 6  # of a phrase
MOST_CHARACTERS = 300  # of a word or a phrase, with its nats: what is longer would take time to normalise


@dataclass(frozen=True)
class DecoderOptions:
    """Options of the search; None or empty means the value of the bundle.

    A bundle without a language model and a vocabulary is decoded greedily, unless hot words or a beam are given.

    Attributes:
        lm: Language model for the search: ARPA, plain or .gz, or the compiled form; over words or the model's tokens.
        lm_weight: Weight of the language model's natural log-probability.
        word_bonus: Nats added for each word, or for each token if the language model is over tokens.
        beam: Width of the prefix beam search; 0 decodes greedily.
        hot: Word or 'phrase of words' to prefer, by default by 5 nats, or WORD=NATS for each word, at most 15, and for
            all words of a phrase together at least -100; repeatable. How a word sounds that the model does not know is
            guessed from its letters; ds2 tune-decoder takes a lexicon. A word with capitals keeps them.
        rescore: Larger language model that rescores the n-best hypotheses; also in KenLM's binary form.
        punctuate: Write capitals and punctuation, if the bundle has them.
        figures: With punctuation, write numbers as figures: $20, May 25th, 1984.

    Raises:
        ParameterError: a value out of range, or options that contradict each other.
    """

    lm: Path | None = None
    lm_weight: float | None = None
    word_bonus: float | None = None
    beam: int | None = None
    hot: tuple[str, ...] = ()
    rescore: Path | None = None
    punctuate: bool = True
    figures: bool = True

    def __post_init__(self) -> None:
        if self.beam is not None and not 0 <= self.beam <= MOST:
            rule = f"must be at least 1 and at most {MOST:,}, or 0 to decode greedily"
            raise ParameterError("beam", f"{rule}, got {self.beam}")
        for name, value in (("lm_weight", self.lm_weight), ("word_bonus", self.word_bonus)):
            if value is not None and not abs(value) <= LARGEST_WEIGHT:
                raise ParameterError(name, f"must be from -{LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, got {value}")
        if self.beam == 0 and (self.lm or self.hot or self.rescore):
            raise ParameterError(
                "beam", "0 decodes greedily, without language models and hot words; remove one of them"
            )


DEFAULT_OPTIONS = DecoderOptions()


def hot_arguments(hot: str | Sequence[str] | Mapping[str, float]) -> tuple[str, ...]:
    """One word or phrase, several, or the nats of each -> "word" or "word=nats" for `DecoderOptions.hot`."""
    if isinstance(hot, Mapping):
        return tuple(f"{word}={nats}" for word, nats in hot.items())
    return (hot,) if isinstance(hot, str) else tuple(hot)


def hot_forms(arguments: Iterable[str]) -> dict[str, str]:
    """ "McDonald=3.5" -> {"mcdonald": "McDonald"}: how hot words are written that have capitals, and hot phrases.

    The words of a phrase have them there alone, as in 'New Year'; possessives of words have them, too.
    """
    typed = (argument.partition("=")[0].strip() for argument in _divided(arguments))
    forms = ((form.lower(), form) for form in typed)
    found = {word: form for word, form in forms if word == normalize(form) and (form != word or " " in word)}
    return {own: found[word] + POSSESSIVE for word, own in possessives(found).items()} | found


def _divided(arguments: Iterable[str]) -> Iterator[str]:
    """The arguments, and each part of a list such as "ds, deep speech=3.5"."""
    for argument in arguments:
        yield from filter(None, map(str.strip, argument.split(","))) if "," in argument else [argument]


def hot_words(arguments: Iterable[str]) -> dict[str, float]:
    """ "ds" or "deep speech=3.5" -> the word or phrase as transcripts spell it, and the nats of each of its words.

    Raises:
        ParameterError: there is no word, or no number after =, or one out of range, or the word or phrase is long.
    """
    boosts = {}
    for argument in _divided(arguments):
        if (length := len(argument)) > MOST_CHARACTERS:
            raise ParameterError("hot", f"{argument:.20}...: at most {MOST_CHARACTERS} characters, got {length:,}")
        word, equals, nats = argument.partition("=")
        word = " ".join(split_words(normalize(word)))
        try:
            boosts[word] = float(nats) if equals else HOT_BOOST
        except ValueError:
            boosts[word] = math.nan
        if (count := len(word.split())) > MOST_WORDS:
            raise ParameterError("hot", f"{argument}: a phrase has at most {MOST_WORDS} words, got {count}")
        least = LEAST_BOOST / max(1, count)
        if not word or not least <= boosts[word] <= MOST_BOOST:
            rule = f"expected WORD, or WORD=NATS such as deep=3.5, from {least:g} to {MOST_BOOST} for each word"
            raise ParameterError("hot", f"{argument}: {rule}")
    return boosts
