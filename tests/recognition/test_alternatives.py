"""The best texts of a recording, from those of its segments."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ds2
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript_builder import best_sums
from ds2.utils.errors import ParameterError

SCORES = st.lists(st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=4), max_size=4)


@given(SCORES, st.integers(1, 6))
def test_best_sums_are_those_of_all_choices(scores: list[list[float]], most: int) -> None:
    found = best_sums(scores, most)
    every = sorted((sum(choice) for choice in itertools.product(*scores)), reverse=True)
    assert [total for _, total in found] == every[:most]
    assert [sum(row[place] for row, place in zip(scores, places, strict=True)) for places, _ in found] == every[:most]
    assert len({tuple(places) for places, _ in found}) == len(found)


def uncertain(recognizer: Recognizer, seconds: float, pauses: tuple[float, ...]) -> np.ndarray:
    """(T, V) log-probabilities of random letters, with a second of blanks around each of the pauses."""
    frame, tokens = recognizer.model.config.frame_seconds, len(recognizer.tokenizer)
    scores = np.random.default_rng(0).normal(0, 2, (round(seconds / frame), tokens)).astype(np.float32)
    scores[:, 0] -= 10.0
    for pause in pauses:
        scores[round((pause - 0.5) / frame) : round((pause + 0.5) / frame), 0] = 50.0
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


@pytest.mark.parametrize(("seconds", "pauses"), [(1.0, ()), (40.0, (12.0, 25.0))])
def test_alternatives_are_distinct_ranked_and_leave_the_transcript_as_it_is(
    tiny_bundle: Path, seconds: float, pauses: tuple[float, ...]
) -> None:
    alone = ds2.load(tiny_bundle, "cpu", beam=20)
    several = alone.with_alternatives(4)
    log_probs = uncertain(alone, seconds, pauses)
    plain, found = (recognizer.decode(log_probs, seconds) for recognizer in (alone, several))
    assert (found.text, found.words, plain.alternatives) == (plain.text, plain.words, ())
    texts, scores = zip(*((each.text, score) for each, score in found.alternatives), strict=True)
    assert len(set(texts)) == 4
    assert texts[0] == plain.text
    assert list(scores) == sorted(scores, reverse=True)
    # Segments lie one after another, and the best of the whole is made of the best of each.
    segments = found.segment_alternatives
    assert len(segments) == 1 + len(pauses)
    assert [each.start for each in segments[1:]] == [each.end for each in segments[:-1]]
    assert " ".join(each.alternatives[0].transcript.text for each in segments) == plain.text
    assert scores[0] == pytest.approx(sum(each.alternatives[0].score for each in segments))
    losses = [best.score - second.score for best, second, *_ in (each.alternatives for each in segments)]
    assert scores[0] - scores[1] == pytest.approx(min(losses))
    # People read probabilities: the softmax of the scores.
    weights = np.exp(np.array(scores) - scores[0])
    probabilities = weights / weights.sum()
    lines = [f"{probability:.4f}\t{text}" for text, probability in zip(texts, probabilities, strict=True)]
    assert found.to_txt().splitlines() == lines
    written = [each["probability"] for each in json.loads(found.to_json())["alternatives"]]
    assert written == pytest.approx(probabilities, abs=1e-4)


def test_a_greedy_search_and_a_number_out_of_range_are_refused(tiny_bundle: Path) -> None:
    with pytest.raises(ParameterError, match="alternatives: the search is greedy"):
        ds2.load(tiny_bundle, "cpu").with_alternatives(2)
    with pytest.raises(ParameterError, match="alternatives: must be from 1 to 100, got 101"):
        ds2.load(tiny_bundle, "cpu", beam=20).with_alternatives(101)
