"""Words with their times, and which tokens make a word."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from ds2.text import is_ideograph

PlacedText = tuple[str, int, int]  # a word of a hypothesis: it fills the output frames from one up to another
SHOWN = 60  # characters of a text in a repr
LONGEST_PAUSE = 0.3  # seconds, within a number for example


@dataclass(frozen=True, repr=False)
class Word:
    """One word: seconds from the start of the recording; confidence 0 to 1.

    With a calibration the confidence is the probability that the word is right. Without one, a search with competitors
    gives the share of the n-best's probability that has this word at this place; a search without them the geometric
    mean of the tokens' probabilities. In an alignment it is the probability that the word is said there.

    `display` is the word with its capital and punctuation; None if the bundle has no punctuation, empty if an earlier
    word shows the number to which it belongs.
    """

    text: str
    start: float
    end: float
    confidence: float
    display: str | None = None

    def __repr__(self) -> str:
        return f"Word({self.text!r}, {self.start:.2f} to {self.end:.2f} s, confidence {self.confidence:.2f})"

    @property
    def shown(self) -> str:
        """The word as people read it."""
        return self.text if self.display is None else self.display


def at_once(word: Word, following: Word) -> bool:
    """Whether no pause is between two words."""
    return following.start - word.end <= LONGEST_PAUSE


def shorten(text: str) -> str:
    """The beginning of a text, whole words of it, for a repr."""
    return textwrap.shorten(text, SHOWN, placeholder=" ...")


def word_spans(texts: list[str]) -> Iterator[tuple[int, int]]:
    """(first, past the last) token of each word."""
    if (text := "".join(texts)).isascii() and len(text) == len(texts):  # a token is a letter
        yield from (word.span() for word in re.finditer("[^ ]+", text))
        return
    first = 0
    for position, text in enumerate([*texts, " "]):
        ideograph = is_ideograph(text)
        if ideograph or text == " ":
            if position > first:
                yield first, position
            if ideograph:
                yield position, position + 1
            first = position + 1
