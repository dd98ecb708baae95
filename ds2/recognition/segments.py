"""Groups of neighbouring words between pauses: the segments of a transcript."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ds2.recognition.words import Word, shorten

SEGMENT_PAUSE = 1.0  # seconds without a word that end a segment
LONG_SEGMENT = 10.0  # seconds after which a shorter pause ends it
SHORT_PAUSE = 0.3  # seconds
LONGEST_SEGMENT = 30.0  # seconds that the words of a segment may take


@dataclass(frozen=True, repr=False)
class TranscriptSegment:
    """Speech between pauses: seconds from the start of the recording, its text and words, and the text to show."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    display: str

    def __repr__(self) -> str:
        return f"TranscriptSegment({shorten(self.text)!r}, {self.start:.2f} to {self.end:.2f} s)"


def group_words(
    text: str, words: Sequence[Word], ends: Callable[[TranscriptSegment, TranscriptSegment], bool]
) -> Iterator[TranscriptSegment]:
    """Groups neighbouring words.

    Args:
        text: of the words, which tells where spaces stand between them.
        ends: given a segment and that segment with the next word, tells whether the segment ends before this word.
    """
    segment: TranscriptSegment | None = None
    for word, space in with_spaces(text, words):
        if segment is not None:
            longer_text = segment.text + space + word.text
            display = segment.display + space + word.shown if word.shown else segment.display
            longer = TranscriptSegment(segment.start, word.end, longer_text, (*segment.words, word), display)
            # a number in figures is shown whole
            if not word.shown or not ends(segment, longer):
                segment = longer
                continue
            yield segment
        segment = TranscriptSegment(word.start, word.end, word.text, (word,), word.shown)
    if segment is not None:
        yield segment


def divide_words(text: str, words: Sequence[Word], starts: Sequence[int]) -> Iterator[TranscriptSegment]:
    """Groups words by the numbers of those that begin a group, the first one left out; `text` as in `group_words`."""
    spaced = list(with_spaces(text, words))
    for first, past in itertools.pairwise([0, *starts, len(spaced)]):
        if group := spaced[first:past]:
            plain = "".join(space + word.text for word, space in group).lstrip()
            display = "".join(space + word.shown for word, space in group if word.shown).lstrip()
            members = tuple(word for word, _ in group)
            yield TranscriptSegment(members[0].start, members[-1].end, plain, members, display)


def ends_segment(segment: TranscriptSegment, longer: TranscriptSegment) -> bool:
    """A segment ends at a pause, the sooner the longer it is."""
    pause = longer.words[-1].start - segment.end
    return (
        pause > SEGMENT_PAUSE
        or (segment.end - segment.start > LONG_SEGMENT and pause > SHORT_PAUSE)
        or longer.end - longer.start > LONGEST_SEGMENT
    )


def with_spaces(text: str, words: Sequence[Word]) -> Iterator[tuple[Word, str]]:
    """Each word with what stands before it in the text: a space, or nothing between ideographs."""
    at = 0
    for word in words:
        space = "" if text.startswith(word.text, at) else " "
        at += len(space) + len(word.text)
        yield word, space
