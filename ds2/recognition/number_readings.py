"""Numbers that can be read in several ways: where a transcript and its reference agree in figures, they agree.

reference   in 2012              in twenty twelve
transcript                       in two thousand and twelve
figures                          in 2012     in both, so the transcript is read as the reference is
"""

import itertools
from collections.abc import Iterator

from ds2.recognition.spoken_to_figures import with_figures
from ds2.recognition.spoken_words import SCALES
from ds2.recognition.words import Word


def read_alike(text: str, reference: str) -> str:
    """An English transcript in words, its numbers read as the reference reads the same ones."""
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
