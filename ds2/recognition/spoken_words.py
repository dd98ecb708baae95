"""Words as text2num reads them: a mark that was guessed does not divide a number."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from text_to_num import Token, find_numbers

from ds2.recognition.words import Word, at_once

SCALES = ("hundred", "thousand", "million", "billion", "trillion")
DIGITS = "one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
ROUND = "twenty thirty forty fifty sixty seventy eighty ninety".split()
GROUPED = 10_000  # from here on commas divide thousands: years have none
LAST_YEAR = 2100  # a number beyond it that is said by thousands is no year
HESITATION = 1.0  # seconds of a pause within a number, at most
BREATHLESS = 0.12  # seconds between two words that no sentence ends between
FIGURES = re.compile(r"\d+(?:\.\d+)?(?:st|nd|rd|th)?")


@dataclass(frozen=True)
class Number:
    """The words `first` to `past` - 1, in figures."""

    first: int
    past: int
    text: str

    @property
    def ordinal(self) -> bool:
        """Whether it is a place in an order, such as 3rd."""
        return self.text.endswith(("st", "nd", "rd", "th"))

    @property
    def value(self) -> float:
        """The number that is meant."""
        return float(self.text[:-2] if self.ordinal else self.text)

    def figures(self, words: Sequence[Word]) -> str:
        """The number in figures, its thousands separated unless it may be a year."""
        by_thousands = any(word.text == "thousand" for word in words[self.first : self.past])
        least = LAST_YEAR if by_thousands else GROUPED
        return f"{int(self.value):,}" if self.text.isdecimal() and self.value >= least else self.text


class _SpokenWord(Token):
    def __init__(self, word: Word, later: Sequence[str], in_decimals: bool, in_thousands: bool):
        self.word, self.later = word, later
        self.in_decimals, self.in_thousands = in_decimals, in_thousands  # behind a point, behind thousands

    def text(self) -> str:
        return self.word.text

    def text_lowercase(self) -> str:
        return self.word.text.lower()

    def nt_separated(self, previous: Token) -> bool:
        assert isinstance(previous, _SpokenWord)
        words = previous.word, self.word
        return not (are_joined(*words) or _is_divided_by_mistake(previous.word, self) or _waits_for_a_scale(*words))

    def not_a_number_part(self) -> bool:
        return False


def numbers_among(words: Sequence[Word]) -> list[Number]:
    """The numbers among words. "ones", "thousands" and "fifths" are none, though text2num reads them as some."""
    found = (Number(each.start, each.end, each.text) for each in find_numbers(_spoken(words), "en", threshold=0))
    plurals = {place for place, word in enumerate(words) if word.text.endswith("s")}
    return [each for each in found if FIGURES.fullmatch(each.text) and plurals.isdisjoint(range(each.first, each.past))]


def _spoken(words: Sequence[Word]) -> list[Token]:
    texts, spoken, in_decimals, in_thousands = [*(word.text for word in words), "", ""], list[Token](), False, False
    for place, word in enumerate(words):
        is_digit = word.text in DIGITS or word.text == "zero"
        in_decimals = is_digit and (in_decimals or (place > 0 and texts[place - 1] == "point"))
        spoken.append(_SpokenWord(word, texts[place + 1 : place + 3], in_decimals, in_thousands))
        in_thousands = word.text in SCALES[1:] or (in_thousands and word.text in (*DIGITS, *TEENS, *ROUND, "hundred"))
    return spoken


def _is_divided_by_mistake(word: Word, following: _SpokenWord) -> bool:
    """Whether a mark without a pause stands where a number goes on: "nineteen hundred. And one", "eleven point. Three",
    "three point one, four", "two thousand, three hundred", "two hundred thirty, four thousand", "two thousand three
    hundred, nineteen"; not in "a hundred, two", which may be a list.
    """
    text, (second, third) = following.word.text, following.later
    goes_on = word.text == "point" or text == "point" or (following.in_decimals and word.text != "point")
    if word.text in SCALES:
        goes_on |= text == "and" or second in SCALES[: SCALES.index(word.text)]
    if word.text in ROUND:
        goes_on |= text in DIGITS and (second in SCALES[1:] or following.in_thousands)
    if word.text in ROUND and text in DIGITS:  # one hundred ninety. Seven creditors
        goes_on |= word.shown.endswith(".") and following.word.start - word.end <= BREATHLESS
    if word.text == "hundred":
        goes_on |= following.in_thousands and text in (*DIGITS, *TEENS, *ROUND)
    if word.text == "hundred" and text in ROUND:
        goes_on |= second in SCALES[1:] or (second in DIGITS and third in SCALES[1:])
    return goes_on and at_once(word, following.word)


def _waits_for_a_scale(word: Word, following: Word) -> bool:
    """Whether a number goes on after a pause: "forty ... thousand"."""
    counts = word.text in (*DIGITS, *TEENS, *ROUND, "hundred") and following.text in SCALES
    return counts and len(word.shown) == len(word.text) and following.start - word.end <= HESITATION


def are_joined(word: Word, following: Word) -> bool:
    """Whether neither a mark nor a pause is between two words."""
    return len(word.shown) == len(word.text) and at_once(word, following)


def are_whole(words: Sequence[Word], first: int, past: int) -> bool:
    """Whether neither a mark nor a pause divides these words."""
    return all(are_joined(words[place], words[place + 1]) for place in range(first, past - 1))
