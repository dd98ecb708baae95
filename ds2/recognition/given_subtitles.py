"""Subtitles of one's own, SubRip or WebVTT: what is said in each cue, and the same cues with new times."""

import html
import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ds2.recognition.align import AlignedRecording
from ds2.recognition.cues import Cue, lasting_end
from ds2.recognition.transcript import Transcript
from ds2.text import width

SUBTITLES = (".srt", ".vtt")
SETTINGS = re.compile(r"(?<=\S)\s+\S.*")  # behind the end of a cue
TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")  # <i>, <v Mary>, {\an8}
NO_SPEECH = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|[♪♫]")
# NARRATOR: at the begin of a line, >> and >> Mary:
SPEAKER = re.compile(
    r"^\s*(?:>{2,}\s*(?:[\w.' -]{1,30}:(?!\w))?|[-–]?\s*(?:[A-Z][A-Z0-9.' -]{1,30}|\d{1,2}):(?![\w]))", re.M
)


@dataclass(frozen=True)
class SubtitleCue:
    """A cue of a file.

    Attributes:
        kind: the suffix of the file.
        written: its text as it is there, with markup.
        settings: what follows the times, in WebVTT.
        before: notes, styles and its name before it, in WebVTT.
    """

    kind: str
    written: str
    settings: str
    before: str

    @property
    def plain(self) -> str:
        """The text without markup."""
        text = TAG.sub("", self.written)
        return html.unescape(text) if self.kind == ".vtt" else text

    @property
    def spoken(self) -> str:
        """What is said, in lines: without sounds in brackets and names of speakers."""
        lines = SPEAKER.sub(" ", NO_SPEECH.sub(" ", self.plain)).split("\n")
        return "\n".join(line.strip() for line in lines if any(map(str.isalnum, line)) or line.strip() == "*")


def read_subtitles(text: str, suffix: str) -> list[SubtitleCue]:
    """The cues of a file with this suffix, in their order."""
    cues, before = [], ""
    for block in re.split(r"\n(?:[ \t]*\n)+", text.replace("\r\n", "\n").strip()):
        above, times, below = block.partition("-->")
        if times and above.count("\n") <= 1:
            first, _, written = below.partition("\n")
            settings, name = SETTINGS.search(first), above.rpartition("\n")[0]
            if name and suffix == ".vtt":
                before += f"{name}\n"
            cues.append(SubtitleCue(suffix, written.rstrip(), settings[0] if settings else "", before))
            before = ""
        elif suffix == ".vtt" and not block.startswith("WEBVTT"):
            before += f"{block}\n\n"
    return cues


def spoken_text(cues: Sequence[SubtitleCue]) -> str:
    """The text to align: that of each cue, in lines of its own, at least one."""
    return "\n".join(cue.spoken for cue in cues)


def retimed(cues: Sequence[SubtitleCue], aligned: AlignedRecording) -> Transcript:
    """The transcript of an alignment of `spoken_text`, with the cues at the times of their words.

    Its segments are those of the cues. A cue without words is between its neighbours.
    """
    words, duration = aligned.transcript.words, aligned.transcript.duration
    numbers = [line.number for line in aligned.lines]
    totals = list(itertools.accumulate((len(line.forms) for line in aligned.lines), initial=0))
    if totals[-1] != len(words):  # a token of two ideographs is one word
        return aligned.transcript
    ends = itertools.accumulate(cue.spoken.count("\n") + 1 for cue in cues)  # the last line of each cue
    counts = [totals[bisect_right(numbers, end)] for end in ends]
    starts = [words[first].start if first < len(words) else duration for first in [0, *counts]]
    found = []
    for cue, first, past, following in zip(cues, [0, *counts], counts, starts[1:], strict=False):
        last = words[past - 1].end if past else 0.0
        start = words[first].start if first < past else last
        end = lasting_end(width(cue.plain.replace("\n", " ")), start, last, following) if first < past else following
        found.append(Cue(start, end, cue.plain, cue.kind, cue.written, cue.settings, cue.before))
    return replace(aligned.transcript, cues=tuple(found), line_starts=tuple(counts[:-1]))
