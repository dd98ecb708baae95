"""Text: the alphabet of a model, and the normal form that transcripts are trained and compared in."""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ds2.utils.errors import InputError

Units = Literal["characters", "bigrams"]

BLANK = 0  # index of CTC's blank among the outputs of every model
BLANK_TOKEN = "<blank>"
APOSTROPHES = str.maketrans(dict.fromkeys("‘’‛ʼ`´", "'"))
IDEOGRAPH = "[\u3400-\u9fff\U00020000-\U0003ffff]"
BETWEEN_IDEOGRAPHS = f"(?<={IDEOGRAPH}) (?={IDEOGRAPH})"
NAMED_DIGITS = 306  # of the longest number that num2words can name
MANDARIN_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
DATE = r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)"
RANGE = r"(?<![\d-])(\d{1,6}[年月日%]?) ?[-–—~] ?(?=(?!0\d)\d{1,6}(?![\d-]))"  # not 010-12345678, nor 1-2-3
ZERO_WIDTH_SPACE = "\u200b"


class Tokenizer:
    """Maps text to token indices and back; index 0 is CTC's blank.

    Tokens are characters, whatever the script; or characters and bigrams, which a word is cut into from left to right
    in pairs, a single character at the end of a word of odd length (Deep Speech 2, section 3.5):

        the cat sat  ->  th e _ ca t _ sa t
    """

    def __init__(self, tokens: Sequence[str]):
        """`tokens` in the order of the model's outputs.

        Raises:
            InputError: the first token is not the blank, a token occurs twice, or is not a text of some length.
        """
        if not all(isinstance(token, str) and token for token in tokens):
            raise InputError(f"tokens: each must be a text, got {list(tokens)!r:.60}")
        if not tokens or tokens[BLANK] != BLANK_TOKEN:
            raise InputError(f"tokens: the first must be {BLANK_TOKEN}, got {list(tokens[:1])!s:.60}")
        self.tokens = tuple(tokens)
        self.index = {token: index for index, token in enumerate(tokens)}
        if len(self.index) != len(self.tokens):
            raise InputError("tokens: each may occur only once")
        self.bigrams = any(len(token) == 2 for token in tokens[1:])

    @classmethod
    def from_texts(cls, texts: Iterable[str], units: Units = "characters") -> "Tokenizer":
        """The alphabet of a corpus: all units that occur, sorted, after the blank.

        An alphabet of bigrams holds all characters as well: no text of the corpus's characters is beyond it.
        """
        found: set[str] = set()
        for text in texts:  # which may be those of millions of utterances
            found.update(text)
            if units == "bigrams":
                found.update(_bigrams(text))
        return cls([BLANK_TOKEN, *sorted(found, key=lambda unit: (len(unit), unit))])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def unspoken(self) -> list[int]:
        """The tokens that nobody hears: the blank, and the space of an alphabet that has one."""
        return [BLANK, *([self.index[" "]] if " " in self.index else [])]

    def unknown(self, text: str) -> set[str]:
        """The characters that the alphabet lacks."""
        return {character for character in text if character not in self.index}

    def encode(self, text: str) -> list[int]:
        """The token indices of a text.

        Raises:
            InputError: a character that the alphabet lacks; none is ever dropped silently.
        """
        units: Iterable[str] = self._known(_bigrams(text)) if self.bigrams else text
        try:
            return list(map(self.index.__getitem__, units))
        except KeyError:
            unknown = "".join(sorted(self.unknown(text)))
            raise InputError(f"{text!r}: not in the model's alphabet: {unknown!r}; normalise the text") from None

    def _known(self, units: Iterator[str]) -> Iterator[str]:
        """A bigram that the corpus did not have, as two characters."""
        for unit in units:
            yield from [unit] if unit in self.index else unit

    def decode(self, indices: Iterable[int]) -> str:
        """The text of token indices, in which a decoder has left no blanks."""
        return "".join(self.tokens[index] for index in indices)


def _bigrams(text: str) -> Iterator[str]:
    """th e _ ca t _ sa t: pairs from the left of each word; spaces and last odd characters alone."""
    for part in re.findall(r" |[^ ]+", text):
        yield from (part[start : start + 2] for start in range(0, len(part), 2))


def normalize(text: str, language: str = "") -> str:
    """The normal form: compatibility characters, lower case, only apostrophes inside words, single spaces.

    Idempotent: a normalised text is its own normal form.

    Args:
        language: "en" also writes numbers as words, "zh" as characters, and leaves no spaces between ideographs; any
            other leaves numbers as they are.
    """
    text = _visible(text).translate(APOSTROPHES)  # before any NFKC, which makes a space and an accent of ´
    if language == "en":
        text = _english_numbers(text)
    elif language == "zh":
        text = _mandarin_numbers(text)
    text = unicodedata.normalize("NFKC", text).translate(APOSTROPHES).lower()  # and after it: ŉ becomes ʼn
    text = unicodedata.normalize("NFKC", text)  # lower case can compose: ẖ is one character, H̱ two
    kept = [character if _belongs_to_word(character) else " " for character in text]
    words = "".join(kept).split()
    text = " ".join(word for word in (word.strip("'") for word in words) if word)
    return re.sub(BETWEEN_IDEOGRAPHS, "", text) if language == "zh" else text


def split_words(text: str) -> list[str]:
    """Words between spaces; an ideograph is a word by itself."""
    return re.findall(f"{IDEOGRAPH}|(?:(?!{IDEOGRAPH})\\S)+", text)


def _english_numbers(text: str) -> str:
    """3rd -> third; 1,234 -> one thousand, two hundred and thirty-four; 2.50% -> two point five zero percent."""

    def words(match: re.Match[str]) -> str:
        from num2words import num2words  # which only texts with figures need

        whole, point, decimals = match["number"].replace(",", "").partition(".")
        ordinal = match["ordinal"] or ""
        if ordinal and not point and len(whole) <= NAMED_DIGITS:
            return f" {num2words(int(whole), to='ordinal')} "
        spoken = num2words(int(whole), to="year") if _is_year(match["number"]) else _cardinal(whole)
        if point:
            spoken += f" point {_digits(decimals)}"
        return f" {spoken} {'percent' if match['percent'] else ordinal} "

    text = unicodedata.normalize("NFKC", text)
    pattern = r"(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?:(?P<ordinal>st|nd|rd|th)\b|(?P<percent> ?%))?"
    return re.sub(pattern, words, text, flags=re.IGNORECASE)


def _is_year(number: str) -> bool:
    return len(number) == 4 and number.isdigit() and "1100" <= number <= "2099"


def _cardinal(number: str) -> str:
    """123 -> one hundred and twenty-three; digit by digit where there is no name for it."""
    from num2words import num2words

    return str(num2words(int(number))) if len(number) <= NAMED_DIGITS else _digits(number)


def _digits(number: str) -> str:
    """50 -> five zero."""
    return " ".join(_cardinal(digit) for digit in number)


def _mandarin_numbers(text: str) -> str:
    """1,234 -> 一千二百三十四; 3.5% -> 百分之三点五; 3-5 -> 三到五; 2021-05-03 -> 二零二一年五月三日."""
    import cn2an

    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(DATE, r"\1年\2月\3日", text)  # cn2an would say minus and fractions
    text = re.sub(RANGE, r"\1到", text)
    text = re.sub(r"\d{17,}", lambda match: match[0].translate(MANDARIN_DIGITS), text)  # beyond cn2an: digit by digit
    return str(cn2an.transform(text, "an2cn"))


def _visible(text: str) -> str:
    """Removes soft hyphens, joiners and direction marks: they divide no words. The zero-width space does, and stays."""
    if text.isascii():
        return text
    return "".join(
        character for character in text if character == ZERO_WIDTH_SPACE or unicodedata.category(character) != "Cf"
    )


@functools.lru_cache(65536)  # characters
def _belongs_to_word(character: str) -> bool:
    """Letters, marks and digits belong to words, whatever the script; so does an apostrophe."""
    return character == "'" or unicodedata.category(character)[0] in "LMN"


def width(text: str) -> int:
    """Columns that a text fills on a screen."""
    return sum(map(_display_columns, text))


def _display_columns(character: str) -> int:
    """East Asian wide characters fill two columns; marks upon the letter before, and invisible ones, fill none."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
