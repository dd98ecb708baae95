"""Numbers that can be read in several ways: where a transcript and its reference agree in figures, they agree.

reference   in 2012              in twenty twelve
transcript                       in two thousand and twelve
figures                          in 2012     in both, so the transcript is read as the reference is
"""

from collections.abc import Iterator

from ds2.recognition.spoken_to_figures import with_figures
from ds2.recognition.words import Word


def read_alike(text: str, reference: str) -> str:
    """An English transcript in words, its numbers read as the reference reads the same ones."""
    readings = {figures: words for figures, words in _in_figures(reference) if figures}
    return " ".join(readings.get(figures, words) for figures, words in _in_figures(text))


def _in_figures(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text, those of a number together after what it is in figures; "" for other words."""
    words = with_figures([Word(word, 0.0, 0.0, 1.0) for word in text.split()])
    first = 0
    for past in range(1, len(words) + 1):
        if past == len(words) or words[past].shown:
            shown = words[first].shown
            yield shown if any(map(str.isdigit, shown)) else "", " ".join(word.text for word in words[first:past])
            first = past
