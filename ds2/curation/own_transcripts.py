"""A model's own transcripts as training data: recordings of one voice for which nobody has written texts.

The model learns from what it understood, and then understands more of the rest (self-training).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ds2.data.corpus_rows import measured
from ds2.data.layouts.transcripts import file_rows
from ds2.data.utterance import RecordingSpan, Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.recordings import OutputFolder, transcribe_all
from ds2.text import join_words, split_words
from ds2.utils.errors import InputError

LONGEST = 20.0  # seconds of an utterance to learn from
LEAST_CONFIDENCE = 0.6  # of a segment to learn from: so many of its words are probably right
LEAST_RIGHT = 0.85  # of all words: a model with 9 to 13 % of them wrong improved, one with 27 % learnt its errors


def own_transcripts(
    recognizer: Recognizer,
    recordings: Sequence[RecordingSpan],
    folder: Path,
    on_audio: Callable[[float], object] = lambda seconds: None,
) -> tuple[list[Utterance], list[str]]:
    """Each segment of the recordings with its text, and the mean confidence of its words as a key.

    Args:
        folder: gets the transcripts, in JSON; those that lie there already are taken.
        on_audio: called with the seconds of audio that each batch adds.

    Returns:
        The utterances, and a line for each recording or segment that gave none.
    """
    output = OutputFolder(folder, ["json"], recordings)
    output.make()
    results = transcribe_all(recognizer, output.missing(recordings), output, on_audio)
    failed = [str(result) for _, result in results if isinstance(result, InputError)]
    paths = (output.paths(recording)["json"] for recording in recordings)
    utterances, left_out = measured(itertools.chain.from_iterable(file_rows(path) for path in paths if path.exists()))
    return utterances, failed + left_out


def mean_confidence(segments: Sequence[Utterance]) -> float:
    """How many of all words are probably right; 0 without any."""
    words = [len(split_words(each.text)) for each in segments]
    confidences = [each.extra.get("confidence", 0.0) for each in segments]
    return float(np.average(confidences, weights=words)) if sum(words) else 0.0


def understood(segments: Iterable[Utterance]) -> list[Utterance]:
    """What to learn from: segments that are sure enough, neighbours together, as long as they are short.

    Longer utterances teach better: the model hears a sentence whole, with its pauses.
    """
    found: list[Utterance] = []
    before: Utterance | None = None  # the last of `found`, if the segment follows on it
    for segment in segments:
        if segment.extra.get("confidence", 0.0) < LEAST_CONFIDENCE or segment.duration > LONGEST:
            before = None
        elif before is not None and (both := _as_one(before, segment)) is not None:
            found[-1] = before = both
        else:
            found.append(segment)
            before = segment
    return found


def _as_one(first: Utterance, second: Utterance) -> Utterance | None:
    """Both as one utterance; None if they are of different recordings, or too long together."""
    if first.audio_path != second.audio_path or first.offset is None or second.offset is None:
        return None
    duration = round(second.offset + second.duration - first.offset, 3)
    if not 0 < duration <= LONGEST:
        return None
    words = [len(split_words(each.text)) for each in (first, second)]
    both = np.average([each.extra["confidence"] for each in (first, second)], weights=words)
    extra = {"confidence": round(float(both), 4)}
    return replace(first, text=join_words([first.text, second.text]), duration=duration, extra=extra)
