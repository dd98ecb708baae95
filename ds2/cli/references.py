"""The texts of a manifest, brought to the form in which a model writes, and lines on what it cannot write."""

import math
import sys
from collections.abc import Mapping, Sequence
from operator import ne
from typing import TYPE_CHECKING

from ds2.utils.errors import printable

if TYPE_CHECKING:
    from ds2.data.utterance import Utterance
    from ds2.text import Tokenizer

FEW = 5000  # characters, about a thousand words


def comparable_references(
    tokenizer: "Tokenizer", utterances: "Sequence[Utterance]", normalize: str | None
) -> "Sequence[Utterance]":
    """The utterances with the texts that a model's words are compared with.

    Args:
        normalize: brings the texts to the normal form of this language first, see `ds2.text.normalize`.
    """
    from ds2.recognition.evaluate import beyond_alphabet, comparable_case, normalized, with_texts

    if normalize is not None:
        utterances = normalized(utterances, normalize)
    written, utterances = utterances, with_texts(utterances, comparable_case(tokenizer))
    if capitals := sum(map(ne, written, utterances)):
        print(f"ds2: the model has no capitals: {capitals} references are compared in lower case", file=sys.stderr)
    if line := beyond_alphabet(tokenizer, utterances):
        language = "zh" if tokenizer.ideographs else "en"
        helps = normalize is None and beyond_alphabet(tokenizer, normalized(utterances, language)) != line
        hint = f"; --normalize {language} brings them to the normal form" if helps else ""
        print(f"ds2: {line}{hint}", file=sys.stderr)
    return utterances


def warn_of_few(utterances: "Sequence[Utterance]") -> None:
    """A line on too little text."""
    if (characters := sum(len(utterance.text) for utterance in utterances)) < FEW:
        print(f"ds2: {characters:,} characters of text are few, chance decides: take {FEW:,} or more", file=sys.stderr)


def shown_area(area: float) -> str:
    """An area under ROC; NaN: the words had no two kinds."""
    return "unknown without both right and wrong words" if math.isnan(area) else f"{area:.3f}"


def warn_of_marks(texts: "Mapping[str, Sequence[str]]", references: "Sequence[str]") -> None:
    """A line on each of others' transcripts with marks that no reference has."""
    from ds2.recognition.compared_transcripts import foreign_marks

    for name, said in texts.items():
        if marks := foreign_marks(said, references):
            line = f"{printable(name)}: has {marks} and no reference has, which makes words wrong"
            print(f"ds2: {line}; --normalize en brings all to the normal form", file=sys.stderr)
