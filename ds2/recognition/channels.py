"""Recordings with a speaker on each channel, such as telephone calls: transcribed channel by channel."""

import itertools
from collections.abc import Callable, Iterator, Sequence

from ds2.data.manifest import Segment
from ds2.data.sound import probe
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.utils.errors import InputError


def transcribe_channels(
    recognizer: Recognizer, segments: Sequence[Segment], on_audio: Callable[[float], object] = lambda seconds: None
) -> Iterator[tuple[Segment, Transcript | InputError]]:
    """Like `Recognizer.transcribe_files`, each channel by itself; the transcripts are merged by time.

    A recording of one channel gets the same transcript as there.
    """
    groups = [split_channels(segment) for segment in segments]
    results = recognizer.transcribe_files(itertools.chain.from_iterable(groups), on_audio)
    for segment, group in zip(segments, groups, strict=True):
        found = [result for _, result in itertools.islice(results, len(group))]
        errors = [result for result in found if isinstance(result, InputError)]
        transcripts = [result for result in found if isinstance(result, Transcript)]
        merged = transcripts[0] if len(transcripts) == 1 else merge_channels(transcripts) if transcripts else None
        yield segment, errors[0] if merged is None or errors else merged


def split_channels(segment: Segment) -> list[Segment]:
    """A segment for each channel; the segment itself where there is one, or where the file cannot be read."""
    try:
        count = probe(segment.path).channels
    except InputError:
        return [segment]
    return [segment._replace(channel=channel) for channel in range(count)] if count > 1 else [segment]
