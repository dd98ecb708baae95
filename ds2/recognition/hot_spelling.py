"""Hot words in the letters of a model: Zürich for one that writes zurich."""

import unicodedata
from collections.abc import Mapping

from ds2.text import Tokenizer

# Letters that are no other one with a mark.
PLAIN = {"ß": "ss", "ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}


def spelt_by(tokenizer: Tokenizer, text: str) -> str:
    """A normalised text, its letters that the model lacks without their marks; what it lacks then stays."""
    return "".join(each if each == " " or not tokenizer.unknown(each) else _plain(each) for each in text)


def hot_spelt_by(tokenizer: Tokenizer, boosts: Mapping[str, float]) -> dict[str, float]:
    """Hot words and phrases, as `hot_words` gives them, in the letters of the model."""
    return {spelt_by(tokenizer, text): nats for text, nats in boosts.items()}


def _plain(letter: str) -> str:
    parts = unicodedata.normalize("NFD", letter)
    return "".join(PLAIN.get(part, part) for part in parts if not unicodedata.combining(part))
