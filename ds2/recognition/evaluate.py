"""Measures a recogniser on a manifest."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, align_texts, character_errors, error_listing, word_errors
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.text import Tokenizer, normalize, split_words
from ds2.utils.errors import InputError

SHOWN = 10  # characters beyond the alphabet that are named


@dataclass(frozen=True)
class Evaluation:
    """Error counts and times of one run; `skipped` holds a line for each utterance that could not be read."""

    utterances: list[Utterance]  # those that could be read
    word_errors: list[ErrorCounts]  # of each of them
    characters: ErrorCounts
    listing: str  # the wrong utterances, reference and hypothesis aligned
    confidences: list[float]  # of all words that were recognised
    right: list[bool]  # whether each of them is right
    audio_seconds: float
    compute_seconds: float
    skipped: list[str]

    @property
    def words(self) -> ErrorCounts:
        """Errors in words, in all."""
        return sum(self.word_errors, ErrorCounts())

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


def normalized(utterances: Sequence[Utterance], language: str) -> list[Utterance]:
    """The utterances with their texts in the normal form; see `ds2.text.normalize`."""
    return [replace(utterance, text=normalize(utterance.text, language)) for utterance in utterances]


def right_words(reference: str, transcript: Transcript) -> list[bool]:
    """Whether each word of a transcript is right."""
    edits = align_texts(split_words(reference), [word.text for word in transcript.words])
    return [edit.kind == "equal" for edit in edits if edit.hypothesis is not None]


def evaluate(
    recognizer: Recognizer, utterances: Sequence[Utterance], on_done: Callable[[], None] = lambda: None
) -> Evaluation:
    """Transcribes every utterance and compares; calls `on_done` after each.

    Raises:
        InputError: none of them can be read.
    """
    read, hypotheses, names, skipped = [], [], [], []
    confidences: list[float] = []
    right: list[bool] = []
    audio_seconds, began = 0.0, time.monotonic()
    results = recognizer.transcribe_files(utterance.span for utterance in utterances)
    for utterance, (_, result) in zip(utterances, results, strict=True):
        on_done()
        if isinstance(result, InputError):
            skipped.append(str(result))
            continue
        read.append(utterance)
        hypotheses.append(result.text)
        names.append(f"{utterance.place} {utterance.audio_path.name}")
        confidences += [word.confidence for word in result.words]
        right += right_words(utterance.text, result)
        audio_seconds += result.duration
    if not read:
        raise InputError(f"{skipped[0]} (and so on: none of {len(skipped)} utterances can be read)")
    references = [utterance.text for utterance in read]
    return Evaluation(
        utterances=read,
        word_errors=list(map(word_errors, references, hypotheses)),
        characters=sum(map(character_errors, references, hypotheses), ErrorCounts()),
        listing=error_listing(references, hypotheses, names),
        confidences=confidences,
        right=right,
        audio_seconds=audio_seconds,
        compute_seconds=time.monotonic() - began,
        skipped=skipped,
    )
