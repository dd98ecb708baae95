"""An utterance of a corpus, and the span of a file that holds its audio."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class RecordingSpan(NamedTuple):
    """A file, or `duration` seconds of it from `offset` (seconds) on; to its end without a duration.

    `channel` counts from 0; None: the average of all channels.
    """

    path: Path
    offset: float = 0.0
    duration: float | None = None
    channel: int | None = None

    def __str__(self) -> str:
        """The path, with the times of a span of it."""
        if self.duration is None:
            return str(self.path)
        return f"{self.path}:{self.offset:.2f}-{self.offset + self.duration:.2f}"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One line of a manifest."""

    audio_path: Path
    duration: float  # seconds
    text: str
    offset: float | None = None  # seconds into the file; None: the utterance is the whole file
    speaker: str | None = None
    lang: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # other keys of the line, kept as they are
    place: str = field(default="", compare=False)  # "manifest:line", for messages

    @property
    def span(self) -> RecordingSpan:
        """Its audio; in a manifest each utterance has its own."""
        if self.offset is None:
            return RecordingSpan(self.audio_path)
        return RecordingSpan(self.audio_path, self.offset, self.duration)
