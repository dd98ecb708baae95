"""A folder of transcripts in JSON by `ds2 transcribe`: with the recordings that they name, a corpus to train on.

calls/a.json        a transcript by `ds2 transcribe`
calls/part-*.json   a transcript on each line, by `ds2 spark transcribe` in the format json
"""

import bisect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ds2.data.corpus_rows import Row
from ds2.data.layouts.regular_files import regular_files
from ds2.data.utterance import RecordingSpan
from ds2.utils.errors import InputError, printable
from ds2.utils.files import numbered_lines, read_text

SPAN = re.compile(r"(.+):(\d+\.\d\d)-(\d+\.\d\d)")  # a name as `RecordingSpan` writes it
MARGIN = 0.2  # seconds before and after a segment: sounds begin before the middle of their first letter


class TranscribedSegment(msgspec.Struct):
    """What was said without a long pause, in seconds; its channel, where they were separated."""

    text: str
    start: float
    end: float
    channel: int = 0


class TranscribedWord(msgspec.Struct):
    """When a word was said, in seconds, and how probably."""

    start: float
    confidence: float


class TranscribedFile(msgspec.Struct):
    """A transcript as it stands in a file; `error`: why there is none."""

    file: str
    text: str
    duration: float
    segments: list[TranscribedSegment]
    words: list[TranscribedWord]
    error: str = ""


class SparkTranscript(msgspec.Struct):
    """A transcript within a line of Spark's."""

    text: str
    duration: float
    words: list[TranscribedWord]


class SparkLine(msgspec.Struct):
    """A line of `ds2 spark transcribe`; `path` is a URI."""

    path: str
    transcript: SparkTranscript | None = None
    error: str = ""


def read(source: Path, _: Path) -> Iterator[Row]:
    """Each segment of the transcripts below `source`, with the mean confidence of its words as a key.

    A recording of one segment, or the span of one, is taken whole. Files that are no transcripts are left out by name,
    and so are those of separate channels, which the recording holds at the same time.
    """
    for path in sorted(regular_files(source, "**/*.json")):
        yield from file_rows(path)


def file_rows(path: Path) -> Iterator[Row]:
    """Like `read`, of one file."""
    try:
        transcripts = read_transcripts(path)
    except InputError as error:
        yield Row(path, "", problem=str(error))
        return
    for transcript in transcripts:
        if transcript.error:
            yield Row(path, "", problem=transcript.error)
        elif any(segment.channel for segment in transcript.segments):
            remedy = "divide the recording into files, as by sox call.wav 1.wav remix 1, and transcribe each"
            yield Row(path, "", problem=f"{path}: its channels are separate; {remedy}")
        elif problem := _not_here(transcript.file, path):
            yield Row(path, "", problem=problem)
        elif not transcript.segments:
            yield Row(_recording(transcript.file, path).path, "", place=str(path))
        else:
            yield from _segment_rows(transcript, path)


def read_transcripts(path: Path) -> list[TranscribedFile]:
    """The transcript in a file of `ds2 transcribe`; the transcripts in a part of a table of `ds2 spark transcribe`,
    each as one segment.

    Raises:
        InputError: the file holds something else.
    """
    text = read_text(path)
    try:
        if path.name.startswith("part-") and '"file"' not in text:
            return [_of_spark(msgspec.json.decode(line, type=SparkLine)) for _, line in numbered_lines(path)]
        return [msgspec.json.decode(text, type=TranscribedFile)]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{path}: not a transcript in JSON by ds2 transcribe ({error!s:.200})") from error


def _of_spark(line: SparkLine) -> TranscribedFile:
    name = line.path.removeprefix("file:")
    if (found := line.transcript) is None:
        return TranscribedFile(name, "", 0.0, [], [], line.error or f"{name}: no transcript")
    segments = [TranscribedSegment(found.text, 0.0, found.duration)] if found.words else []
    return TranscribedFile(name, found.text, found.duration, segments, found.words)


def _recording(name: str, transcript: Path) -> RecordingSpan:
    """The recording of a transcript, or its span. It is named as somebody typed it: from the current folder, or else
    from the nearest folder above the transcript where there is one."""
    folders = (Path(), *transcript.absolute().parents)
    if found := next((folder / name for folder in folders if (folder / name).exists()), None):
        return RecordingSpan(found)
    if (span := SPAN.fullmatch(name)) is None:
        return RecordingSpan(Path(name))
    start, end = float(span[2]), float(span[3])
    return RecordingSpan(_recording(span[1], transcript).path, start, round(end - start, 2))


def _not_here(name: str, transcript: Path) -> str:
    """What to do where a recording that is named from a folder is not there; empty for others."""
    found = _recording(name, transcript).path
    if found.is_absolute() or "://" in str(found) or found.exists():
        return ""
    return f"{transcript}: no {printable(str(found))} from here; run it in the folder in which ds2 transcribe ran"


def _segment_rows(transcript: TranscribedFile, path: Path) -> Iterator[Row]:
    recording, place = _recording(transcript.file, path), str(path)
    segments, begins = transcript.segments, [word.start for word in transcript.words]
    # Half of a pause belongs to each side.
    middles = [(before.end + after.start) / 2 for before, after in itertools.pairwise(segments)]
    for segment, (first, last) in zip(segments, itertools.pairwise([0.0, *middles, transcript.duration]), strict=True):
        own = transcript.words[bisect.bisect_left(begins, segment.start) : bisect.bisect_left(begins, segment.end)]
        extra = {"confidence": round(sum(word.confidence for word in own) / len(own), 4)} if own else {}
        if len(segments) == 1:  # the whole recording, or span of one
            offset, duration = None if recording.duration is None else recording.offset, recording.duration
        else:
            start = max(first, segment.start - MARGIN)
            offset, duration = round(recording.offset + start, 3), round(min(last, segment.end + MARGIN) - start, 3)
        yield Row(recording.path, segment.text, offset=offset, duration=duration, extra=extra, place=place)
