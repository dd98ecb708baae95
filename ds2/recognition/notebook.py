"""A transcript in a notebook: its text, doubtful words marked, and a player of its recording."""

import mimetypes
from collections.abc import Iterable
from pathlib import Path

from ds2.recognition.segments import TranscriptSegment, with_spaces
from ds2.recognition.words import Word
from ds2.utils.pages import as_html, player

DOUBTFUL = 0.5  # confidence: words below it are as likely wrong as right
MOST_BYTES = 5_000_000  # of a recording that becomes part of the notebook


def transcript_html(segments: Iterable[tuple[int, TranscriptSegment]], path: Path | None) -> str:
    """A paragraph for each segment, with the number of its channel unless it is 0; a player where `path` is the file
    that was transcribed, is there and small."""
    paragraphs = [f"<p>{f'<b>{number}</b> ' if number else ''}{_words(segment)}</p>" for number, segment in segments]
    return "".join([_player(path), *paragraphs])


def _words(segment: TranscriptSegment) -> str:
    pairs = with_spaces(segment.text, segment.words)
    return "".join(space + _marked_if_doubtful(word) for word, space in pairs if word.shown)


def _marked_if_doubtful(word: Word) -> str:
    text = as_html(word.shown)
    if word.confidence >= DOUBTFUL:
        return text
    return f'<mark title="{word.start:.2f} s, confidence {word.confidence:.2f}">{text}</mark>'


def _player(path: Path | None) -> str:
    if path is None or not path.is_file() or path.stat().st_size > MOST_BYTES:
        return ""
    kind = mimetypes.guess_type(path.name)[0] or ""
    if not kind.startswith(("audio/", "video/")):
        return ""
    return player(kind, path.read_bytes())
