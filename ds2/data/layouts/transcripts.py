"""A folder of transcripts in JSON by `ds2 transcribe`: with the recordings that they name, a corpus to train on."""

import bisect
import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ds2.data.corpus_rows import Row
from ds2.utils.errors import InputError
from ds2.utils.files import read_text

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
    """A transcript as it stands in a file."""

    file: str
    text: str
    duration: float
    segments: list[TranscribedSegment]
    words: list[TranscribedWord]


def read(source: Path, _: Path) -> Iterator[Row]:
    """Each segment of the transcripts below `source`, with the mean confidence of its words as a key.

    A recording of one segment is taken whole. Files that are no transcripts are left out by name, and so are those of
    separate channels, which the recording holds at the same time.
    """
    for path in sorted(source.rglob("*.json")):
        try:
            transcript = read_transcript(path)
        except InputError as error:
            yield Row(path, "", problem=str(error))
            continue
        if any(segment.channel for segment in transcript.segments):
            yield Row(path, "", problem=f"{path}: its channels are separate; divide the recording into files")
        elif not transcript.segments:
            yield Row(Path(transcript.file), "", place=str(path))
        else:
            yield from _segment_rows(transcript, str(path))


def read_transcript(path: Path) -> TranscribedFile:
    """The transcript in a file.

    Raises:
        InputError: the file holds something else.
    """
    try:
        return msgspec.json.decode(read_text(path), type=TranscribedFile)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{path}: not a transcript in JSON by ds2 transcribe ({error!s:.200})") from error


def _segment_rows(transcript: TranscribedFile, place: str) -> Iterator[Row]:
    segments, begins = transcript.segments, [word.start for word in transcript.words]
    # Half of a pause belongs to each side.
    middles = [(before.end + after.start) / 2 for before, after in itertools.pairwise(segments)]
    for segment, (first, last) in zip(segments, itertools.pairwise([0.0, *middles, transcript.duration]), strict=True):
        own = transcript.words[bisect.bisect_left(begins, segment.start) : bisect.bisect_left(begins, segment.end)]
        extra = {"confidence": round(sum(word.confidence for word in own) / len(own), 4)} if own else {}
        if len(segments) == 1:
            yield Row(Path(transcript.file), segment.text, extra=extra, place=place)
            continue
        offset = round(max(first, segment.start - MARGIN), 3)
        duration = round(min(last, segment.end + MARGIN) - offset, 3)
        yield Row(Path(transcript.file), segment.text, offset=offset, duration=duration, extra=extra, place=place)
