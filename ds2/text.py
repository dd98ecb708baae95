"""Text: the alphabet of a model, and the normal form that transcripts are trained and compared in."""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ds2.utils.abbreviations import without_abbreviations
from ds2.utils.annotations import without_annotations
from ds2.utils.errors import InputError
from ds2.utils.mandarin_numbers import mandarin_numbers
from ds2.utils.roman_numerals import spoken_romans
from ds2.utils.spoken_numbers import english_numbers

Units = Literal["characters", "bigrams"]

BLANK = 0  # index of CTC's blank among the outputs of every model
BLANK_TOKEN = "<blank>"
MODEL_MARKS = ("<s>", "</s>", "<unk>")  # of a language model: the begin and end of a sentence, other words
POSSESSIVE = "'s"  # of English words
APOSTROPHES = str.maketrans(dict.fromkeys("‘’‛ʼ`´", "'"))
ASCII_MARKS = {ord(mark): " " for mark in map(chr, range(128)) if not (mark.isalnum() or mark == "'")}
FIRST_IDEOGRAPH = "\u3400"
IDEOGRAPH = "[\u3400-\u9fff\U00020000-\U0003ffff]"
BETWEEN_IDEOGRAPHS = f"(?<={IDEOGRAPH}) (?={IDEOGRAPH})"
ZERO_WIDTH_SPACE = "\u200b"
MOST_MARKS = 30  # upon a letter; no language has more than a few


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

        An alphabet of bigrams holds all characters as well: no text of the corpus's characters is beyond it. The space,
        which a search for words needs, is there even if each text is one word, but for Chinese.
        """
        found: set[str] = set()
        for text in texts:  # which may be those of millions of utterances
            found.update(text)
            if units == "bigrams":
                found.update(_bigrams(text))
        if not any(map(is_ideograph, found)):
            found.add(" ")
        return cls([BLANK_TOKEN, *sorted(found, key=lambda unit: (len(unit), unit))])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def unspoken(self) -> list[int]:
        """The tokens that nobody hears: the blank, and the space of an alphabet that has one."""
        return [BLANK, *([self.index[" "]] if " " in self.index else [])]

    @property
    def ideographs(self) -> bool:
        """Whether it writes Chinese characters."""
        return any(map(is_ideograph, self.tokens))

    def unknown(self, text: str) -> set[str]:
        """The characters that the alphabet lacks."""
        return {character for character in text if character not in self.index}

    def without_accents(self, text: str) -> str:
        """naïve -> naive, for an alphabet that lacks ï but has i."""
        return "".join(each if each in self.index else self._bare(each) for each in text)

    def _bare(self, character: str) -> str:
        parts = unicodedata.normalize("NFKD", character)
        bare = "".join(part for part in parts if not unicodedata.combining(part))
        return character if self.unknown(bare) else bare

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
        return "".join(map(self.tokens.__getitem__, indices))


def _bigrams(text: str) -> Iterator[str]:
    """th e _ ca t _ sa t: pairs from the left of each word; spaces and last odd characters alone."""
    for part in re.findall(r" |[^ ]+", text):
        yield from (part[start : start + 2] for start in range(0, len(part), 2))


def normalize(text: str, language: str = "") -> str:
    """The normal form: compatibility characters, lower case, only apostrophes inside words, single spaces.

    Idempotent: a normalised text is its own normal form.

    Args:
        language: "en" also writes numbers, signs such as $ and abbreviations such as Mr. as words, and pm as p m, "zh"
            numbers as characters, and leaves no spaces between ideographs; both leave out annotations such as <unk> and
            [noise]. Any other leaves numbers as they are.
    """
    text = _visible(text).translate(APOSTROPHES)  # before any NFKC, which makes a space and an accent of ´
    if language == "en":
        text = without_abbreviations(without_annotations(text))
        text = english_numbers(spoken_romans(text))
    elif language == "zh":
        text = mandarin_numbers(without_annotations(text, round_brackets=False))
    text = unicodedata.normalize("NFKC", text).translate(APOSTROPHES).lower()  # and after it: ŉ becomes ʼn
    text = unicodedata.normalize("NFKC", text)  # lower case can compose: ẖ is one character, H̱ two
    text = _visible(text)  # again: lower case makes a letter and a mark of İ
    if text.isascii():
        words = text.translate(ASCII_MARKS).split()
    else:
        words = "".join(character if _belongs_to_word(character) else " " for character in text).split()
    text = " ".join(word for word in (word.strip("'") for word in words) if word)
    return re.sub(BETWEEN_IDEOGRAPHS, "", text) if language == "zh" else text


def count_words(words: Sequence[str]) -> int:
    """The number of words of a language model, whose list may hold MODEL_MARKS as well."""
    return len(words) - sum(map(words.count, MODEL_MARKS))


def split_words(text: str) -> list[str]:
    """Words between spaces; an ideograph is a word by itself."""
    if text.isascii():
        return text.split()
    return re.findall(f"{IDEOGRAPH}|(?:(?!{IDEOGRAPH})\\S)+", text)


def possessives(words: Iterable[str]) -> dict[str, str]:
    """Anita -> Anita's: the English possessive of each single word that is none itself."""
    return {word: word + POSSESSIVE for word in words if " " not in word and not word.endswith(POSSESSIVE)}


def join_words(texts: Iterable[str]) -> str:
    """Texts with spaces between, and none between ideographs."""
    return re.sub(BETWEEN_IDEOGRAPHS, "", " ".join(texts))


@functools.lru_cache(4096)
def is_ideograph(text: str) -> bool:
    """Whether it is one Chinese character."""
    return text >= FIRST_IDEOGRAPH and re.fullmatch(IDEOGRAPH, text) is not None


def _visible(text: str) -> str:
    """Removes soft hyphens, joiners and direction marks: they divide no words. The zero-width space does, and stays.

    Of the marks upon one letter the first MOST_MARKS stay, as in Unicode's stream-safe form: to normalise a run of them
    takes time in the square of its length.
    """
    if text.isascii():
        return text
    kept, marks = [], 0
    for character in text:
        if character == ZERO_WIDTH_SPACE or unicodedata.category(character) != "Cf":
            marks = marks + new if (new := _marks(character)) else 0
            if marks <= MOST_MARKS:
                kept.append(character)
    return "".join(kept)


@functools.lru_cache(65536)  # characters
def _marks(character: str) -> int:
    """How many marks a character is, upon the letter before it; 0: it is no mark."""
    parts = unicodedata.normalize("NFKD", character)
    return len(parts) if unicodedata.combining(parts[0]) else 0


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
