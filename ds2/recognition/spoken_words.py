"""Words as text2num reads them: a mark that was guessed does not divide a number."""

from collections.abc import Sequence

from text_to_num import Token

from ds2.recognition.words import Word, at_once

SCALES = ("hundred", "thousand", "million", "billion", "trillion")
DIGITS = "one two three four five six seven eight nine".split()
ROUND = "twenty thirty forty fifty sixty seventy eighty ninety".split()


class _Spoken(Token):
    def __init__(self, word: Word, later: Sequence[str], in_decimals: bool):
        self.word, self.later, self.in_decimals = word, later, in_decimals

    def text(self) -> str:
        return self.word.text

    def text_lowercase(self) -> str:
        return self.word.text.lower()

    def nt_separated(self, previous: Token) -> bool:
        assert isinstance(previous, _Spoken)
        return not (are_joined(previous.word, self.word) or _is_divided_by_mistake(previous.word, self))

    def not_a_number_part(self) -> bool:
        return False


def spoken_words(words: Sequence[Word]) -> list[Token]:
    """The words for `find_numbers`."""
    texts, spoken, in_decimals = [*(word.text for word in words), "", ""], list[Token](), False
    for place, word in enumerate(words):
        is_digit = word.text in DIGITS or word.text == "zero"
        in_decimals = is_digit and (in_decimals or (place > 0 and texts[place - 1] == "point"))
        spoken.append(_Spoken(word, texts[place + 1 : place + 3], in_decimals))
    return spoken


def _is_divided_by_mistake(word: Word, following: _Spoken) -> bool:
    """Whether a mark without a pause stands where a number goes on: "nineteen hundred. And one", "eleven point. Three",
    "three point one, four", "two thousand, three hundred", "two hundred thirty, four thousand"; not in "a hundred,
    two", which may be a list.
    """
    text, (second, third) = following.word.text, following.later
    goes_on = word.text == "point" or text == "point" or (following.in_decimals and word.text != "point")
    if word.text in SCALES:
        goes_on |= text == "and" or second in SCALES[: SCALES.index(word.text)]
    if word.text in ROUND:
        goes_on |= text in DIGITS and second in SCALES[1:]
    if word.text == "hundred" and text in ROUND:
        goes_on |= second in SCALES[1:] or (second in DIGITS and third in SCALES[1:])
    return goes_on and at_once(word, following.word)


def are_joined(word: Word, following: Word) -> bool:
    """Whether neither a mark nor a pause is between two words."""
    return len(word.shown) == len(word.text) and at_once(word, following)
