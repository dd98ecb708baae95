"""Recordings with a speaker on each channel, such as telephone calls: transcribed channel by channel."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

from ds2.data.audio_files import probe
from ds2.data.utterance import Segment
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.recognition.windows import Source
from ds2.utils.errors import InputError


def transcribe_channels(
    recognizer: Recognizer, sources: Iterable[Source], on_audio: Callable[[float], object] = lambda seconds: None
) -> Iterator[tuple[Source, Transcript | InputError]]:
    """Like `Recognizer.transcribe_files`, each channel by itself; the transcripts are merged by time.

    A recording of one channel gets the same transcript as there.
    """
    begun: deque[tuple[Source, int]] = deque()  # and the number of its channels

    def channels() -> Iterator[Segment]:
        for source in sources:  # a file in memory, or a string, may stand where a path may
            parts = split_channels(source if isinstance(source, Segment) else Segment(cast(Path, source)))
            begun.append((source, len(parts)))
            yield from parts

    results = recognizer.transcribe_files(channels(), on_audio)
    for _, first in results:
        source, count = begun.popleft()
        found = [first, *(result for _, result in itertools.islice(results, count - 1))]
        errors = [result for result in found if isinstance(result, InputError)]
        transcripts = [result for result in found if isinstance(result, Transcript)]
        merged = transcripts[0] if len(transcripts) == 1 else merge_channels(transcripts) if transcripts else None
        yield source, errors[0] if merged is None or errors else merged


def split_channels(segment: Segment) -> list[Segment]:
    """A segment for each channel; the segment itself where there is one, or where the file cannot be read."""
    try:
        count = probe(segment.path).channels
    except InputError:
        return [segment]
    return [segment._replace(channel=channel) for channel in range(count)] if count > 1 else [segment]
