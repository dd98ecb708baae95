"""Cutting at long runs of blanks."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.readings import RATE, read_digits
from hypothesis import given
from hypothesis import strategies as st

from ds2.curation.segment import SegmentConfig, cut_into_segments, segment, spaced_at_pauses
from ds2.recognition.recognizer import Recognizer


def words(pauses: list[float], length: float = 0.4) -> list[tuple[float, float]]:
    """Spans of words of equal length with these pauses between them."""
    spans = [(0.0, length)]
    for pause in pauses:
        spans.append((spans[-1][1] + pause, spans[-1][1] + pause + length))
    return spans


def test_the_longest_run_is_cut_first() -> None:
    pauses = [0.1, 0.3, 0.1, 0.9, 0.1]
    config = SegmentConfig(mean=2.0, shortest=0.5, longest=20)
    assert cut_into_segments(words(pauses), pauses, config) == [(0, 4), (4, 6)]


def test_more_cuts_for_a_smaller_mean() -> None:
    pauses = [0.2, 0.5, 0.2, 0.6, 0.2, 0.4, 0.2]
    spans = words(pauses)
    assert cut_into_segments(spans, pauses, SegmentConfig(mean=20)) == [(0, 8)]
    assert cut_into_segments(spans, pauses, SegmentConfig(mean=1.3, shortest=1.0)) == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_no_piece_is_made_shorter_than_the_shortest_unless_the_pause_is_very_long() -> None:
    pauses = [0.9, 0.2, 0.2, 0.2, 0.2]
    assert cut_into_segments(words(pauses), pauses, SegmentConfig(mean=1.0, shortest=1.0))[0] == (0, 2)
    pauses[0] = 2.5
    assert cut_into_segments(words(pauses), pauses, SegmentConfig(mean=1.0, shortest=1.0))[0] == (0, 1)


def test_a_long_piece_is_cut_although_the_mean_is_met() -> None:
    pauses = [0.2] * 29
    pauses[14] = 0.15
    segments = cut_into_segments(words(pauses), pauses, SegmentConfig(mean=12.0, shortest=1.0, longest=12.0))
    spans = words(pauses)
    assert all(spans[last - 1][1] - spans[first][0] <= 12.0 for first, last in segments)


def test_nothing_is_cut_where_no_run_is_long_enough() -> None:
    pauses = [0.05] * 99
    assert cut_into_segments(words(pauses), pauses, SegmentConfig(mean=2.0)) == [(0, 100)]


@given(st.lists(st.floats(0.0, 3.0), max_size=60), st.floats(1.5, 10.0))
def test_every_word_is_in_exactly_one_segment(pauses: list[float], mean: float) -> None:
    segments = cut_into_segments(words(pauses), pauses, SegmentConfig(mean=mean))
    assert [place for first, last in segments for place in range(first, last)] == list(range(len(pauses) + 1))
    assert all(first < last for first, last in segments)


def test_no_words_no_segments() -> None:
    assert cut_into_segments([], [], SegmentConfig()) == []


@pytest.mark.parametrize("lengths", [(0.0, 7.0, 20.0), (8.0, 7.0, 20.0), (1.0, 7.0, 6.0)])
def test_lengths_that_contradict_are_refused(lengths: tuple[float, float, float]) -> None:
    shortest, mean, longest = lengths
    with pytest.raises(ValueError, match="must be positive and increase"):
        SegmentConfig(mean=mean, shortest=shortest, longest=longest)


def test_a_reading_becomes_utterances_that_hold_their_words(recognizer: Recognizer, tmp_path: Path) -> None:
    """With and without its transcript; the mean length is near the target; the sound and the text of each agree."""
    reading = read_digits(tmp_path / "reading.wav", 1, lines=24)
    config = SegmentConfig(mean=5.0)
    for text in (reading.text, None):
        found = segment(recognizer, tmp_path / "reading.wav", text, config)
        lengths = [utterance.duration for utterance in found.utterances]
        assert 3.5 < np.mean(lengths) < 6.5
        assert all(config.shortest <= length <= config.longest for length in lengths)
        assert found.too_short == found.too_long == []
        spoken = []
        for utterance in found.utterances:
            assert utterance.offset is not None
            said = reading.said(utterance.offset, utterance.offset + utterance.duration)
            assert utterance.text == (" ".join(said) if text is not None else "")
            if text is not None:
                assert [word for word, *_ in utterance.extra["words"]] == said
            else:  # what the model guessed is no text
                assert utterance.extra == {}
            spoken += said
        assert spoken == reading.words


def test_silence_around_a_sentence_is_no_reason_to_leave_it_out(recognizer: Recognizer, tmp_path: Path) -> None:
    reading = read_digits(tmp_path / "reading.wav", 1, lines=1)
    never = SegmentConfig(pause=9.0, always=9.0)
    [whole] = segment(recognizer, tmp_path / "reading.wav", reading.text, never).utterances
    for less, count in ((0.3, 1), (0.5, 0)):  # of 0.4 s of silence around it
        config = dataclasses.replace(never, mean=whole.duration - less, longest=whole.duration - less)
        found = segment(recognizer, tmp_path / "reading.wav", reading.text, config)
        assert [each.duration <= config.longest for each in found.utterances] == [True] * count
        assert len(found.too_long) == 1 - count
    assert found.too_long == [(whole.offset, pytest.approx((whole.offset or 0.0) + whole.duration))]


def test_a_long_silence_belongs_to_no_segment(recognizer: Recognizer, tmp_path: Path) -> None:
    reading = read_digits(tmp_path / "reading.wav", 2, lines=4)
    samples, _ = soundfile.read(tmp_path / "reading.wav")
    middle = round((reading.spans[9][1] + reading.spans[10][0]) / 2 * RATE)
    quiet = np.random.default_rng(0).normal(0, 1e-3, 30 * RATE)
    soundfile.write(tmp_path / "long.wav", np.concatenate([samples[:middle], quiet, samples[middle:]]), RATE)
    found = segment(recognizer, tmp_path / "long.wav", reading.text, SegmentConfig())
    seconds = sum(utterance.duration for utterance in found.utterances)
    assert seconds < len(samples) / RATE + 1


def test_a_long_run_of_blanks_that_lacks_a_space_gets_one() -> None:
    """him he: letters of two words with a pause between them, and no space, are not one word with a pause in it."""
    him, he = [3, 0, 4], [5, 6]
    long, short = [0] * 4, [0] * 3
    assert spaced_at_pauses(np.array(him + long + he), 1, 3).tolist() == [*him, 0, 1, 0, 0, *he]
    for kept in (him + short + he, [*him, 1, *long, *he], [*him, *long, 1, *he], [*long, *him, *long], long, []):
        assert spaced_at_pauses(np.array(kept, np.int64), 1, 3).tolist() == kept
