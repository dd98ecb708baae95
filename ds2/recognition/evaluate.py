"""Measures a recogniser on a manifest."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ds2.data.corpus_rows import ROUNDED
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, align_texts, character_errors, error_listing, word_errors
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.text import Tokenizer, split_words
from ds2.utils.compilations import compilations
from ds2.utils.errors import InputError

SHOWN = 10  # characters beyond the alphabet that are named


@dataclass(frozen=True)
class Evaluation:
    """Error counts and times of one run.

    Attributes:
        skipped: a line for each utterance that could not be read.
        cut_off: a line for each span that reaches beyond the end of its recording.
    """

    utterances: list[Utterance]  # those that could be read
    hypotheses: list[str]  # of each of them
    confidences: list[float]  # of all words that were recognised
    right: list[bool]  # whether each of them is right
    audio_seconds: float
    compute_seconds: float
    compiling_seconds: float  # of these, once for each processor
    skipped: list[str]
    cut_off: list[str] = field(default_factory=list)

    @functools.cached_property
    def references(self) -> list[str]:
        """The texts of the utterances."""
        return [utterance.text for utterance in self.utterances]

    @functools.cached_property
    def word_errors(self) -> list[ErrorCounts]:
        """Errors in words of each utterance."""
        return list(map(word_errors, self.references, self.hypotheses))

    @property
    def words(self) -> ErrorCounts:
        """Errors in words, in all."""
        return sum(self.word_errors, ErrorCounts())

    @property
    def characters(self) -> ErrorCounts:
        """Errors in characters, in all."""
        return sum(map(character_errors, self.references, self.hypotheses), ErrorCounts())

    @property
    def listing(self) -> str:
        """The wrong utterances, reference and hypothesis aligned; see `ds2.metrics.error_listing`."""
        names = [f"{utterance.place} {utterance.audio_path.name}" for utterance in self.utterances]
        return error_listing(self.references, self.hypotheses, names)

    @property
    def real_time_factor(self) -> float:
        """Seconds of computing per second of audio."""
        return self.compute_seconds / self.audio_seconds


def beyond_alphabet(tokenizer: Tokenizer, utterances: Sequence[Utterance]) -> str:
    """A line on references with characters that the model cannot output; empty where there are none."""
    unknown = [characters for utterance in utterances if (characters := tokenizer.unknown(utterance.text))]
    if not unknown:
        return ""
    listed = ", ".join(map(repr, sorted(set.union(*unknown))[:SHOWN]))
    return (
        f"{len(unknown)} of {len(utterances)} references hold characters beyond the model's alphabet, which count as "
        f"errors: {listed}"
    )


def comparable_case(tokenizer: Tokenizer) -> Callable[[str], str]:
    """Brings texts to lower case, where the model cannot output a capital; else leaves them as they are."""
    return str if any(token != token.lower() for token in tokenizer.tokens) else str.lower


def comparable_letters(tokenizer: Tokenizer) -> Callable[[str], str]:
    """Brings texts to the letters of the model: see `comparable_case`, and café to cafe where it lacks é; without
    spaces, as between Latin words in Mandarin, where it writes none."""
    case, space = comparable_case(tokenizer), " " if " " in tokenizer.index else ""
    return lambda text: space.join(tokenizer.without_accents(case(text)).split())


def with_texts(utterances: Sequence[Utterance], form: Callable[[str], str]) -> list[Utterance]:
    """The utterances with their texts in another form."""
    return [replace(utterance, text=form(utterance.text)) for utterance in utterances]


def right_words(reference: str, transcript: Transcript) -> list[bool]:
    """Whether each word of a transcript is right."""
    edits = align_texts(split_words(reference), [word.text for word in transcript.words])
    return [edit.kind == "equal" for edit in edits if edit.hypothesis is not None]


def evaluate(
    recognizer: Recognizer,
    utterances: Sequence[Utterance],
    on_done: Callable[[], None] = lambda: None,
    form: Callable[[str, str], tuple[str, str]] = lambda text, reference: (text, reference),
) -> Evaluation:
    """Transcribes every utterance and compares; calls `on_done` after each.

    Args:
        form: brings a transcript and its reference to one form, as `readings.both_forms` does: p.m. may be one word or
            two, and 2012 has two readings.

    Raises:
        InputError: none of them can be read.
    """
    read, hypotheses, skipped, cut_off = [], [], [], []
    confidences: list[float] = []
    right: list[bool] = []
    audio_seconds, began, compiled = 0.0, time.monotonic(), compilations.seconds
    results = recognizer.transcribe_files(utterance.span for utterance in utterances)
    for utterance, (_, result) in zip(utterances, results, strict=True):
        on_done()
        if isinstance(result, InputError):
            skipped.append(str(result))
            continue
        if utterance.offset is not None and result.duration < utterance.duration - ROUNDED:
            there = f"{result.duration:.2f} of the {utterance.duration:.2f} s"
            cut_off.append(f"{utterance.place}: the recording ends after {there}")
        text, reference = form(result.text, utterance.text)
        read.append(replace(utterance, text=reference))
        hypotheses.append(text)
        confidences += [word.confidence for word in result.words]
        right += right_words(reference, result)
        audio_seconds += result.duration
    if not read:
        raise InputError(f"{skipped[0]} (and so on: none of {len(skipped)} utterances can be read)")
    return Evaluation(
        utterances=read,
        hypotheses=hypotheses,
        confidences=confidences,
        right=right,
        audio_seconds=audio_seconds,
        compute_seconds=time.monotonic() - began,
        compiling_seconds=compilations.seconds - compiled,
        skipped=skipped,
        cut_off=cut_off,
    )
