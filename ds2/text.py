"""Text: the alphabet of a model, and the normal form that transcripts are trained and compared in."""

import unicodedata
from collections.abc import Iterable, Sequence

from ds2.errors import InputError

BLANK = "<blank>"
APOSTROPHES = str.maketrans(dict.fromkeys("‘’‛ʼ`´", "'"))
ZERO_WIDTH_SPACE = "\u200b"


class Tokenizer:
    """Maps text to token indices and back; index 0 is CTC's blank. One token is one character."""

    def __init__(self, tokens: Sequence[str]):
        """`tokens` in the order of the model's outputs.

        Raises:
            InputError: the first token is not the blank, or a token occurs twice.
        """
        if not tokens or tokens[0] != BLANK:
            raise InputError(f"tokens: the first must be {BLANK}, got {list(tokens[:1])}")
        self.tokens = tuple(tokens)
        self.index = {token: index for index, token in enumerate(tokens)}
        if len(self.index) != len(self.tokens):
            raise InputError("tokens: each may occur only once")

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> "Tokenizer":
        """The alphabet of a corpus: all characters that occur, sorted, behind the blank."""
        return cls([BLANK, *sorted({character for text in texts for character in text})])

    def __len__(self) -> int:
        return len(self.tokens)

    def unknown(self, text: str) -> set[str]:
        """The characters that the alphabet lacks."""
        return {character for character in text if character not in self.index}

    def encode(self, text: str) -> list[int]:
        """The token indices of a text.

        Raises:
            InputError: a character that the alphabet lacks; none is ever dropped silently.
        """
        try:
            return [self.index[character] for character in text]
        except KeyError:
            unknown = "".join(sorted(self.unknown(text)))
            raise InputError(f"{text!r}: not in the model's alphabet: {unknown!r}; normalise the text") from None

    def decode(self, indices: Iterable[int]) -> str:
        """The text of token indices, in which a decoder has left no blanks."""
        return "".join(self.tokens[index] for index in indices)


def normalize(text: str) -> str:
    """Compatibility form, lower case, no punctuation but apostrophes inside words, single spaces.

    Idempotent: a normalised text is its own normal form.
    """
    text = _visible(text).translate(APOSTROPHES)  # before NFKC, which makes a space and an accent of ´
    text = unicodedata.normalize("NFKC", text).translate(APOSTROPHES).lower()  # and behind it: ŉ becomes ʼn
    text = unicodedata.normalize("NFKC", text)  # lower case can compose: ẖ is one character, H̱ two
    kept = [character if _belongs_to_word(character) else " " for character in text]
    words = "".join(kept).split()
    return " ".join(word for word in (word.strip("'") for word in words) if word)


def _visible(text: str) -> str:
    """Without soft hyphens, joiners and direction marks: they divide no words. The zero-width space does, and stays."""
    return "".join(
        character for character in text if character == ZERO_WIDTH_SPACE or unicodedata.category(character) != "Cf"
    )


def _belongs_to_word(character: str) -> bool:
    """Letters, marks and digits belong to words, whatever the script; so does an apostrophe."""
    return character == "'" or unicodedata.category(character)[0] in "LMN"
