"""Recordings with a speaker on each channel, such as telephone calls: transcribed channel by channel."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

from ds2.audio.files import probe
from ds2.data.utterance import RecordingSpan
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

    def channels() -> Iterator[RecordingSpan]:
        for source in sources:  # a file in memory, or a string, may stand where a path may
            spans = split_channels(source if isinstance(source, RecordingSpan) else RecordingSpan(cast(Path, source)))
            begun.append((source, len(spans)))
            yield from spans

    results = recognizer.transcribe_files(channels(), on_audio)
    for _, first in results:
        source, count = begun.popleft()
        found = [first, *(result for _, result in itertools.islice(results, count - 1))]
        errors = [result for result in found if isinstance(result, InputError)]
        transcripts = [result for result in found if isinstance(result, Transcript)]
        merged = transcripts[0] if len(transcripts) == 1 else merge_channels(transcripts) if transcripts else None
        yield source, errors[0] if merged is None or errors else merged


def split_channels(recording: RecordingSpan) -> list[RecordingSpan]:
    """A span for each channel; the recording itself where there is one, or where the file cannot be read."""
    try:
        count = probe(recording.path).channels
    except InputError:
        return [recording]
    return [recording._replace(channel=channel) for channel in range(count)] if count > 1 else [recording]
