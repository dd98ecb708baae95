"""What the formats of transcripts read of one."""

from collections.abc import Sequence
from typing import Protocol

from ds2.recognition.cues import Cue
from ds2.recognition.segments import TranscriptSegment
from ds2.recognition.words import Word


class WrittenAlternatives(Protocol):
    """The best texts of a segment, with their scores."""

    @property
    def start(self) -> float:
        """Seconds at which the segment starts."""

    @property
    def end(self) -> float:
        """Seconds at which it ends."""

    @property
    def alternatives(self) -> "Sequence[tuple[Written, float]]":
        """Its best texts with their scores in nats, the best first."""


class Written(Protocol):
    """What a format reads of a transcript, see `ds2.recognition.transcript`."""

    @property
    def text(self) -> str:
        """The words, with spaces between them."""

    @property
    def words(self) -> Sequence[Word]:
        """The words with their times."""

    @property
    def duration(self) -> float:
        """Seconds of the recording."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def channels(self) -> "Sequence[Written]":
        """The transcript of each channel, where they were separated."""

    @property
    def characters(self) -> Sequence[Word]:
        """The characters with their times, where they are known."""

    @property
    def untranscribed(self) -> Sequence[tuple[float, float]]:
        """Start and end of speech that an aligned text lacks."""

    @property
    def line_starts(self) -> Sequence[int]:
        """The words that begin a line of an aligned text, by their places."""

    @property
    def channel_cues(self) -> Sequence[tuple[int, Cue]]:
        """The cues of all channels in the order of their times, each with its channel."""

    @property
    def channel_segments(self) -> Sequence[tuple[int, TranscriptSegment]]:
        """The segments of all channels in the order of their times, each with its channel."""

    @property
    def display(self) -> str:
        """The text as people read it."""

    @property
    def punctuated(self) -> bool:
        """Whether its words, if there are any, have display forms."""

    @property
    def alternatives(self) -> "Sequence[tuple[Written, float]]":
        """The best transcripts with their scores in nats, the best first."""

    @property
    def warning(self) -> str:
        """What a reader should know of the transcript; empty if nothing."""

    @property
    def segment_alternatives(self) -> Sequence[WrittenAlternatives]:
        """The best texts of each segment."""
