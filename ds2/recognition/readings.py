"""Numbers and titles with several readings: a transcript is compared in those of its reference.

reference   Mr. X in 2012        mister x in twenty twelve
transcript                       mr x in two thousand and twelve
figures                          in 2012     in both, so the transcript is read as the reference is
"""

import functools
import itertools
from collections.abc import Callable, Iterator

from ds2.recognition.spoken_to_figures import with_figures
from ds2.recognition.spoken_words import SCALES
from ds2.recognition.words import Word
from ds2.text import normalize
from ds2.utils.abbreviations import WORDS


def normal_form(language: str | None) -> Callable[[str], str]:
    """Brings texts to the normal form of a language, see `ds2.text.normalize`; without one they stay as they are."""
    return str if language is None else functools.partial(normalize, language=language)


def transcript_form(language: str | None) -> Callable[[str, str], str]:
    """Brings a transcript to the form of its reference: the normal one of a language, with numbers and titles as there.

    Without a language it stays as it is.
    """
    form = normal_form(language)
    if language != "en":
        return lambda text, reference: form(text)
    return lambda text, reference: read_alike(form(text), reference)


def read_alike(text: str, reference: str) -> str:
    """An English transcript in words, its numbers and titles read as the reference reads the same ones."""
    said = set(reference.split())
    titles = {short: full for short, full in WORDS.items() if full in said and short not in said}
    titles |= {full: short for short, full in WORDS.items() if short in said and full not in said}
    text = " ".join(titles.get(word, word) for word in text.split())
    readings = {figures: words for figures, words in _in_figures(reference) if figures}
    return " ".join(readings.get(figures, words) for figures, words in _in_figures(text))


def _in_figures(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text, those of a number together after what it is in figures; "" for other words."""
    said = text.split()
    # "a hundred" is 100 as well, though it is shown in words.
    counted = ["one" if each == "a" and after in SCALES else each for each, after in itertools.pairwise([*said, ""])]
    shown = [word.shown for word in with_figures([Word(word, 0.0, 0.0, 1.0) for word in counted])]
    first = 0
    for past in range(1, len(said) + 1):
        if past == len(said) or shown[past]:
            yield shown[first] if any(map(str.isdigit, shown[first])) else "", " ".join(said[first:past])
            first = past
