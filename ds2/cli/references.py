"""The texts of a manifest, brought to the form in which a model writes, and lines on what it cannot write."""

import math
import sys
from collections.abc import Iterable, Sequence
from operator import ne
from typing import TYPE_CHECKING

from ds2.utils.errors import counted

if TYPE_CHECKING:
    from ds2.data.utterance import Utterance
    from ds2.recognition.evaluate import Evaluation
    from ds2.text import Tokenizer

FEW = 20_000  # characters, about four thousand words


def comparable_references(
    tokenizer: "Tokenizer", utterances: "Sequence[Utterance]", normalize: str | None
) -> "Sequence[Utterance]":
    """The utterances with the texts that a model's words are compared with: café is cafe to one that lacks é.

    Args:
        normalize: brings the texts to the normal form of this language first, see `ds2.text.normalize`.
    """
    from ds2.recognition.evaluate import beyond_alphabet, comparable_case, comparable_letters, with_texts
    from ds2.recognition.readings import normal_form

    utterances = with_texts(utterances, normal_form(normalize))
    written, utterances = utterances, with_texts(utterances, comparable_case(tokenizer))
    if capitals := sum(map(ne, written, utterances)):
        print(f"ds2: the model has no capitals: {capitals} references are compared in lower case", file=sys.stderr)
    utterances = with_texts(utterances, comparable_letters(tokenizer))
    if line := beyond_alphabet(tokenizer, utterances):
        print(f"ds2: {line}{_remedy(tokenizer, utterances, normalize)}", file=sys.stderr)
    return utterances


def learnable_references(
    tokenizer: "Tokenizer", utterances: "Sequence[Utterance]", normalize: str | None
) -> "Sequence[Utterance]":
    """Like `comparable_references`, by default as `choose_form` says: what is fitted to texts that a model cannot write
    is wrong."""
    return comparable_references(tokenizer, utterances, choose_form(tokenizer, utterances, normalize))


def choose_form(
    tokenizer: "Tokenizer", utterances: "Sequence[Utterance]", normalize: str | None, others: Iterable[str] = ()
) -> str | None:
    """The language in whose normal form texts are taken, None if they are taken as they are; says which.

    By default the normal form is taken where it lets the model write more of the references, where others' texts have
    marks that no reference has, or where each utterance says that its text is of the model's language.
    """
    from ds2.recognition.compared_transcripts import foreign_marks
    from ds2.recognition.readings import normal_form

    if normalize is not None:
        return normalize
    language, own = _helping_language(tokenizer, utterances), _language(tokenizer)
    named = {(each.lang or "").partition("-")[0] for each in utterances}
    if named == {own} or foreign_marks(others, (utterance.text for utterance in utterances)):
        language = own
    if language is not None and any(normal_form(language)(each.text) != each.text for each in utterances):
        print(f"ds2: the texts are taken in their normal form, as by --normalize {language}", file=sys.stderr)
    return language


def tell_of_other_forms(tokenizer: "Tokenizer", result: "Evaluation", normalize: str | None) -> None:
    """A line on errors that are none in the normal form, where texts were not taken in it."""
    from ds2.metrics import word_errors
    from ds2.recognition.readings import both_forms

    if normalize is not None or tokenizer.ideographs:
        return
    form, same = both_forms("en"), 0
    for reference, text, before in zip(result.references, result.hypotheses, result.word_errors, strict=True):
        if before.errors:
            text, reference = form(text, reference)
            same += before.errors - word_errors(reference, text).errors
    if same > 0:
        kinds = "the same words in another form, such as etc and et cetera"
        print(f"ds2: {counted(same, 'error')} fewer by --normalize en, which takes {kinds} for equal", file=sys.stderr)


def _language(tokenizer: "Tokenizer") -> str:
    return "zh" if tokenizer.ideographs else "en"


def _helping_language(tokenizer: "Tokenizer", utterances: "Sequence[Utterance]") -> str | None:
    """The language in whose normal form a model can write more of the references; None where it cannot."""
    from ds2.recognition.evaluate import beyond_alphabet, comparable_case, with_texts
    from ds2.recognition.readings import normal_form

    language, in_case = _language(tokenizer), comparable_case(tokenizer)
    if not (written := beyond_alphabet(tokenizer, with_texts(utterances, in_case))):
        return None
    readable = with_texts(with_texts(utterances, normal_form(language)), in_case)
    return language if beyond_alphabet(tokenizer, readable) != written else None


def _remedy(tokenizer: "Tokenizer", utterances: "Sequence[Utterance]", normalize: str | None) -> str:
    """What to do about references that a model cannot write; empty where nothing helps."""
    from ds2.text import is_ideograph

    chinese = sum(any(map(is_ideograph, utterance.text)) for utterance in utterances)
    if not tokenizer.ideographs and 2 * chinese > len(utterances):
        return "; they are Chinese: take a model that writes it, such as --model mandarin"
    language = _helping_language(tokenizer, utterances) if normalize is None else None
    return f"; --normalize {language} brings them to the normal form" if language is not None else ""


def warn_of_few(utterances: "Sequence[Utterance]") -> None:
    """A line on too little text."""
    if (characters := sum(len(utterance.text) for utterance in utterances)) < FEW:
        print(f"ds2: {characters:,} characters of text are few, chance decides: take {FEW:,} or more", file=sys.stderr)


def shown_area(area: float) -> str:
    """An area under ROC; NaN: the words had no two kinds."""
    return "unknown without both right and wrong words" if math.isnan(area) else f"{area:.3f}"
