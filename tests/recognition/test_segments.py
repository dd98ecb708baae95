"""Where a transcript is divided."""

from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word


def texts(*spans: tuple[float, float]) -> list[str]:
    """The segments of words "0", "1", ... with these times."""
    words = tuple(Word(str(number), start, end, 1.0) for number, (start, end) in enumerate(spans))
    transcript = Transcript(" ".join(word.text for word in words), words, 100.0)
    assert [word for segment in transcript.segments for word in segment.words] == list(words)
    return [segment.text for segment in transcript.segments]


def test_a_pause_ends_a_segment() -> None:
    assert texts() == []
    assert texts((0.0, 0.5), (1.4, 2.0), (3.1, 4.0)) == ["0 1", "2"]


def test_a_long_segment_ends_at_a_shorter_pause() -> None:
    steady = [(3.0 * n, 3.0 * n + 2.95) for n in range(4)]
    assert texts(*steady, (12.3, 13.0), (13.1, 14.0)) == ["0 1 2 3", "4 5"]


def test_a_segment_without_a_pause_ends_all_the_same() -> None:
    assert [text.count(" ") + 1 for text in texts(*((2.0 * n, 2.0 * n + 2.0) for n in range(40)))] == [15, 15, 10]


def test_ideographs_are_joined_without_spaces() -> None:
    words = tuple(Word(text, n, n + 1.0, 1.0) for n, text in enumerate("你好"))
    [segment] = Transcript("你好", words, 2.0).segments
    assert (segment.text, segment.start, segment.end) == ("你好", 0, 2.0)
