"""Word and character error rates, and a listing that shows where the errors are."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from rapidfuzz.distance import Levenshtein

from ds2.text import split_words, width

Kind = Literal["equal", "substitute", "delete", "insert"]
MARKS: dict[Kind, str] = {"equal": "", "substitute": "S", "delete": "D", "insert": "I"}
KINDS: dict[str, Kind] = {"equal": "equal", "replace": "substitute", "delete": "delete", "insert": "insert"}
CONFUSIONS_LISTED = 20


@dataclass(frozen=True)
class Edit:
    """One step from the reference to the hypothesis; the side that has no unit there is None."""

    kind: Kind
    reference: str | None
    hypothesis: str | None


@dataclass(frozen=True)
class ErrorCounts:
    """Errors against a reference of `reference_length` units (words or characters); adds up over utterances."""

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    reference_length: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per unit of the reference; above 1 where much is inserted. An empty reference counts as one unit."""
        return self.errors / max(1, self.reference_length)

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.reference_length + other.reference_length,
        )


def align_texts(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Edit]:
    """A shortest sequence of edits (Levenshtein 1966) that turns the reference into the hypothesis.

    Among equally short ones the choice is always the same; time grows with N * M / 64, memory with N + M.
    """
    edits: list[Edit] = []
    for kind, start, end, other, last in _blocks(reference, hypothesis):
        units = zip_longest(reference[start:end], hypothesis[other:last])
        edits += [Edit(kind, before, after) for before, after in units]
    return edits


def _blocks(reference: Sequence[str], hypothesis: Sequence[str]) -> Iterator[tuple[Kind, int, int, int, int]]:
    """(kind, start, end, start, end) of neighbouring edits alike, in the reference and in the hypothesis."""
    for code in Levenshtein.opcodes(reference, hypothesis):
        yield KINDS[code.tag], code.src_start, code.src_end, code.dest_start, code.dest_end


def word_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Errors in words, which are what stands between white space; an ideograph is a word."""
    return _count(split_words(reference), split_words(hypothesis))


def character_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Errors in characters. Spaces between words count as characters; repeated and outer ones do not."""
    return _count(" ".join(reference.split()), " ".join(hypothesis.split()))


def _count(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorCounts:
    """The edits of `align_texts`, counted without listing them: texts may be long."""
    sizes: Counter[Kind] = Counter()
    for kind, start, end, other, last in _blocks(reference, hypothesis):
        sizes[kind] += max(end - start, last - other)
    return ErrorCounts(sizes["substitute"], sizes["delete"], sizes["insert"], len(reference))


def wer(references: Iterable[str], hypotheses: Iterable[str]) -> float:
    """Word error rate of a corpus: all errors over all reference words.

    Raises:
        ValueError: not as many hypotheses as references.
    """
    return _total(word_errors, references, hypotheses).rate


def cer(references: Iterable[str], hypotheses: Iterable[str]) -> float:
    """Character error rate of a corpus; raises as `wer` does."""
    return _total(character_errors, references, hypotheses).rate


def _total(
    errors: Callable[[str, str], ErrorCounts], references: Iterable[str], hypotheses: Iterable[str]
) -> ErrorCounts:
    pairs = zip(references, hypotheses, strict=True)
    return sum((errors(reference, hypothesis) for reference, hypothesis in pairs), ErrorCounts())


def error_listing(references: Sequence[str], hypotheses: Sequence[str], names: Sequence[str]) -> str:
    """Totals, the most frequent confusions, then each wrong utterance word under word.

    Raises:
        ValueError: references, hypotheses and names are not equally many.
    """
    total, confusions, wrong = ErrorCounts(), Counter[str](), []
    for reference, hypothesis, name in zip(references, hypotheses, names, strict=True):
        edits = align_texts(split_words(reference), split_words(hypothesis))
        total += word_errors(reference, hypothesis)
        errors = [edit for edit in edits if edit.kind != "equal"]
        confusions.update(f"{edit.reference or '(nothing)'} -> {edit.hypothesis or '(nothing)'}" for edit in errors)
        if errors:
            wrong.append(f"{name}\n{_edit_columns(edits)}")
    lines = [
        f"WER {total.rate:.2%}: {total.substitutions} substitutions, {total.deletions} deletions, "
        f"{total.insertions} insertions in {total.reference_length} words; "
        f"{len(wrong)} of {len(references)} utterances wrong",
        *(f"{count:6}  {confusion}" for confusion, count in confusions.most_common(CONFUSIONS_LISTED)),
    ]
    return "\n".join(["\n".join(lines), *wrong]) + "\n"


def _edit_columns(edits: Sequence[Edit]) -> str:
    """Three lines: reference, hypothesis and marks, each word as wide as the widest of its column."""
    rows = {
        "REF": [edit.reference or "" for edit in edits],
        "HYP": [edit.hypothesis or "" for edit in edits],
        "   ": [MARKS[edit.kind] for edit in edits],
    }
    columns = [max(map(width, column)) for column in zip(*rows.values(), strict=True)]
    lines = []
    for title, row in rows.items():
        cells = (cell + " " * (column - width(cell)) for cell, column in zip(row, columns, strict=True))
        lines.append(f"  {title} {' '.join(cells)}".rstrip())
    return "\n".join(lines)
