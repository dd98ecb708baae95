"""From a decoder's hypothesis to words with times and confidence."""

import pytest

from ds2.decoder.hypothesis import Hypothesis
from ds2.recognition.transcript import make_transcript
from ds2.recognition.words import word_spans
from ds2.text import BLANK_TOKEN, Tokenizer

TOKENIZER = Tokenizer([BLANK_TOKEN, " ", "a", "b", "c"])


def test_words_are_grouped_at_spaces_with_times_and_confidence() -> None:
    hypothesis = Hypothesis((2, 3, 1, 4), (1, 3, 5, 7), (2, 4, 6, 9), (0.9, 0.4, 1.0, 0.5))
    transcript = make_transcript(hypothesis, TOKENIZER, frame_seconds=0.02, duration=0.17)
    first, second = transcript.words
    assert transcript.text == "ab c"
    assert (first.text, first.start, first.end) == ("ab", 0.02, 0.08)
    assert first.confidence == pytest.approx(0.6)  # the geometric mean of 0.9 and 0.4
    assert (second.text, second.start, second.end, second.confidence) == ("c", 0.14, 0.17, 0.5)


def test_spaces_alone_are_no_words() -> None:
    transcript = make_transcript(Hypothesis((1, 1), (0, 2), (1, 3), (0.5, 0.5)), TOKENIZER, 0.02, 1.0)
    assert (transcript.text, transcript.words) == ("", ())


def test_ideographs_are_words_by_themselves() -> None:
    assert list(word_spans(list("你好 ok吗 "))) == [(0, 1), (1, 2), (3, 5), (5, 6)]
    assert list(word_spans([])) == []
    assert list(word_spans([" ", " "])) == []
