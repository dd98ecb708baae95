"""Words on both sides of a pause: the search joined what was not said together, and only one side is theirs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ds2.recognition.offline_segments import holds_speech
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word

INNER_PAUSE = 1.0  # seconds without speech; a shorter time may pass between two peaks of one long vowel


def beside_pauses(
    transcript: Transcript, rows: Sequence[np.ndarray], frame_seconds: float, unspoken: Sequence[int]
) -> Transcript:
    """The transcript of a segment whose words do not last through pauses: each keeps the side with more speech.

    Args:
        rows: the segment's log-probabilities, in chunks of (T, V).
        unspoken: outputs, see `Tokenizer.unspoken`.
    """
    if not rows or all(word.end - word.start < INNER_PAUSE for word in transcript.words):
        return transcript
    speech = np.concatenate([holds_speech(chunk, unspoken) for chunk in rows])
    words = [_on_one_side(word, speech, frame_seconds) for word in transcript.words]
    return replace(transcript, words=tuple(words))


def _on_one_side(word: Word, speech: np.ndarray, frame_seconds: float) -> Word:
    first, past = (round(seconds / frame_seconds) for seconds in (word.start, word.end))
    spoken = first + np.flatnonzero(speech[first:past])
    cuts = np.flatnonzero(np.diff(spoken) * frame_seconds > INNER_PAUSE) + 1
    if not len(cuts):
        return word
    kept = max(np.split(spoken, cuts), key=len)
    start, end = kept[0] * frame_seconds, (kept[-1] + 1) * frame_seconds
    return replace(word, start=round(float(start), 3), end=round(float(min(end, word.end)), 3))
