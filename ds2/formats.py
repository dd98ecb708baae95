"""Transcripts as files: txt, json, srt, vtt, ctm."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds2.transcript import Transcript, Word

CUE_CHARACTERS = 42  # the width of a subtitle line that people read at a glance
CUE_PAUSE = 0.5  # seconds of silence that end a cue
CUE_SECONDS = 6.0  # the longest that a cue stays


def to_txt(transcript: "Transcript", name: str) -> str:
    """The words alone, one line."""
    return transcript.text + "\n"


def to_json(transcript: "Transcript", name: str) -> str:
    """One object a line: file, duration in seconds, text, words with start, end (seconds) and confidence."""
    return json.dumps({"file": name, **dataclasses.asdict(transcript)}, ensure_ascii=False) + "\n"


def to_srt(transcript: "Transcript", name: str) -> str:
    """SubRip subtitles."""
    cues = enumerate(_cues(transcript.words), 1)
    return "".join(f"{number}\n{_span(cue, ',')}\n{_text(cue)}\n\n" for number, cue in cues)


def to_vtt(transcript: "Transcript", name: str) -> str:
    """WebVTT subtitles."""
    return "WEBVTT\n\n" + "".join(f"{_span(cue, '.')}\n{_text(cue)}\n\n" for cue in _cues(transcript.words))


def to_ctm(transcript: "Transcript", name: str) -> str:
    """NIST CTM: file, channel, start, duration, word, confidence; blanks in the file's name become underscores."""
    file = "_".join(name.split())
    return "".join(
        f"{file} 1 {word.start:.3f} {word.end - word.start:.3f} {word.text} {word.confidence:.4f}\n"
        for word in transcript.words
    )


FORMATS: dict[str, Callable[["Transcript", str], str]] = {
    "txt": to_txt,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
    "ctm": to_ctm,
}


def _cues(words: Sequence["Word"]) -> Iterator[list["Word"]]:
    """Groups words into cues: broken at pauses, and where a line or its time would grow too long."""
    cue: list[Word] = []
    for word in words:
        if cue and (
            word.start - cue[-1].end > CUE_PAUSE
            or word.end - cue[0].start > CUE_SECONDS
            or len(_text([*cue, word])) > CUE_CHARACTERS
        ):
            yield cue
            cue = []
        cue.append(word)
    if cue:
        yield cue


def _text(cue: Sequence["Word"]) -> str:
    return " ".join(word.text for word in cue)


def _span(cue: Sequence["Word"], point: str) -> str:
    return f"{_clock(cue[0].start, point)} --> {_clock(cue[-1].end, point)}"


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"
