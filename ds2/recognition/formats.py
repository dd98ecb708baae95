"""Transcripts as files: txt, json, srt, vtt, ctm, TextGrid."""

import dataclasses
import itertools
import json
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds2.recognition.transcript import Transcript, Word

CUE_CHARACTERS = 42  # the width of a subtitle line that people read at a glance
CUE_PAUSE = 0.5  # seconds of silence that end a cue
CUE_SECONDS = 6.0  # the longest that the words of a cue may take
CUE_LEAST = 1.0  # seconds that a cue stays, unless the next one begins


def to_txt(transcript: "Transcript", name: str) -> str:
    """The words alone, one line."""
    return transcript.text + "\n"


def to_json(transcript: "Transcript", name: str) -> str:
    """One object a line: file, duration in seconds, text, words with start, end (seconds) and confidence."""
    return json.dumps({"file": printable(name), **dataclasses.asdict(transcript)}, ensure_ascii=False) + "\n"


def to_srt(transcript: "Transcript", name: str) -> str:
    """SubRip subtitles."""
    cues = enumerate(_cues(transcript), 1)
    return "".join(f"{number}\n{_span(cue, ',')}\n{cue.text}\n\n" for number, cue in cues)


def to_vtt(transcript: "Transcript", name: str) -> str:
    """WebVTT subtitles; & and < have a meaning of their own there."""
    cues = ((_span(cue, "."), cue.text.replace("&", "&amp;").replace("<", "&lt;")) for cue in _cues(transcript))
    return "WEBVTT\n\n" + "".join(f"{span}\n{text}\n\n" for span, text in cues)


def to_ctm(transcript: "Transcript", name: str) -> str:
    """NIST CTM: file, channel, start, duration, word, confidence; blanks in the file's name become underscores."""
    file = "_".join(printable(name).split())
    return "".join(
        f"{file} 1 {word.start:.3f} {word.end - word.start:.3f} {word.text} {word.confidence:.4f}\n"
        for word in transcript.words
    )


def to_textgrid(transcript: "Transcript", name: str) -> str:
    """Praat's TextGrid: one tier of words, the silence between them as empty intervals."""
    intervals, at = [], 0.0
    for word in transcript.words:
        start = max(at, word.start)
        if start > at:
            intervals.append((at, start, ""))
        at = max(start, word.end)
        intervals.append((start, at, word.text))
    if at < transcript.duration or not intervals:
        intervals.append((at, transcript.duration, ""))
    end = max(at, transcript.duration)
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {end}"]
    lines += ["tiers? <exists>", "size = 1", "item []:", "    item [1]:", '        class = "IntervalTier"']
    lines += ['        name = "words"', "        xmin = 0", f"        xmax = {end}"]
    lines += [f"        intervals: size = {len(intervals)}"]
    for number, (start, stop, text) in enumerate(intervals, 1):
        quoted = text.replace('"', '""')
        lines += [f"        intervals [{number}]:", f"            xmin = {start}", f"            xmax = {stop}"]
        lines += [f'            text = "{quoted}"']
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[["Transcript", str], str]] = {
    "txt": to_txt,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
    "ctm": to_ctm,
    "TextGrid": to_textgrid,
}
ONE_A_FILE = ("srt", "vtt", "TextGrid")  # formats that cannot hold several recordings one after another


def printable(name: str) -> str:
    """A file's name whose bytes are not UTF-8 with those bytes written out, so that it can be printed and stored."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclasses.dataclass(frozen=True)
class _Cue:
    """What stands on the screen from start to end (seconds)."""

    start: float
    end: float
    text: str


def _cues(transcript: "Transcript") -> Iterator[_Cue]:
    """Cues that stay long enough to be read: a word alone would flash by."""
    cues = list(_spoken_cues(transcript))
    for cue, following in itertools.zip_longest(cues, cues[1:]):
        latest = cue.start + CUE_LEAST if following is None else min(cue.start + CUE_LEAST, following.start)
        yield dataclasses.replace(cue, end=max(cue.end, latest))


def _spoken_cues(transcript: "Transcript") -> Iterator[_Cue]:
    """Groups words into cues: broken at pauses, and where a line or its time would grow too long."""
    cue: _Cue | None = None
    for word, blank in _with_blanks(transcript):
        longer = None if cue is None else _Cue(cue.start, word.end, cue.text + blank + word.text)
        if (
            cue is not None
            and longer is not None
            and (
                word.start - cue.end > CUE_PAUSE
                or longer.end - longer.start > CUE_SECONDS
                or _width(longer.text) > CUE_CHARACTERS
            )
        ):
            yield cue
            longer = None
        cue = longer or _Cue(word.start, word.end, word.text)
    if cue is not None:
        yield cue


def _with_blanks(transcript: "Transcript") -> Iterator[tuple["Word", str]]:
    """Each word with what stands before it in the text: a blank, or nothing between ideographs."""
    at = 0
    for word in transcript.words:
        blank = "" if transcript.text.startswith(word.text, at) else " "
        at += len(blank) + len(word.text)
        yield word, blank


def _width(text: str) -> int:
    """Columns on the screen: an ideograph takes two."""
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def _span(cue: _Cue, point: str) -> str:
    return f"{_clock(cue.start, point)} --> {_clock(cue.end, point)}"


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"
