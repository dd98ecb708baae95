"""Pauses end utterances at the same frames, however the log-probabilities come in."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.utterances import LONGEST_SILENCE, GreedySearch, Utterance, Utterances

MODEL = ModelConfig(  # an output frame every 30 ms, 2 frames late
    FrontendConfig(8000, power="adaptive"),
    (ConvolutionConfig(1, (5, 5), (2, 3)),),
    recurrent_layers=1, hidden=1, bidirectional=False, lookahead=2,
)  # fmt: skip
LOOK = 4  # output frames between two looks for a pause
PAUSE = 20  # output frames without a label that end an utterance: 0.6 s


def rows_of(labels: list[int]) -> np.ndarray:
    """(T, 3) log-probabilities whose best outputs are these; 0 is the blank."""
    return np.log(np.full((len(labels), 3), 0.05) + 0.85 * np.eye(3)[labels]).astype(np.float32)


def found(labels: list[int], sizes: list[int], config: LiveConfig, endpoints: bool = True) -> list[Utterance]:
    """The utterances of frames that come so many at once."""
    utterances = Utterances(GreedySearch, MODEL, config, endpoints=endpoints)
    ended = [each for rows in np.split(rows_of(labels), np.cumsum(sizes)) for each in utterances.step(rows)]
    return [*ended, utterances.finish(len(labels) * MODEL.frame_seconds)]


def tokens(utterances: list[Utterance]) -> list[list[int]]:
    return [list(utterance.hypotheses[0].tokens) for utterance in utterances]


def frames(utterances: list[Utterance]) -> list[tuple[int, int]]:
    """First frame and number of frames."""
    seconds = MODEL.frame_seconds
    return [(round(each.start / seconds), round(each.duration / seconds)) for each in utterances]


def ends(labels: list[int], config: LiveConfig) -> list[int]:
    """The slow reference: the frames before which utterances end."""
    begun, places, second = 0, [], 1 / MODEL.frame_seconds
    for end in range(1, len(labels) + 1):
        heard = [frame for frame in range(begun, end) if labels[frame]]
        if (end + MODEL.delay) % LOOK:
            continue
        if heard:
            is_long = end - heard[0] > config.long_utterance_seconds * second
            pause = config.short_pause_seconds if is_long else config.pause_seconds
            over = end - 1 - heard[-1] >= pause * second
        else:
            over = end - begun > LONGEST_SILENCE * second
        if over:
            places.append(end)
            begun = end
    return places


def test_a_pause_ends_an_utterance_at_the_next_look() -> None:
    """20 frames without a label are over with frame 22; looks for pauses come after 2, 6, ... 26 frames."""
    labels = [0, 0, 1] + [0] * 30 + [2] + [0] * 5
    utterances = found(labels, [], LiveConfig())
    assert tokens(utterances) == [[1], [2]]
    assert frames(utterances) == [(0, 26), (26, 13)]
    assert [np.concatenate(each.rows).argmax(1).tolist() for each in utterances] == [labels[:26], labels[26:]]


def test_without_endpoints_a_stream_is_one_utterance() -> None:
    assert tokens(found([1] + [0] * 60 + [2], [], LiveConfig(), endpoints=False)) == [[1, 2]]


@pytest.mark.parametrize("labels", [[0] * 1100, [1] + [0] * 1100])
def test_the_search_begins_anew_after_a_long_silence(labels: list[int]) -> None:
    """30 s are 1,000 frames."""
    assert max(count for _, count in frames(found(labels, [], LiveConfig()))) in range(1001, 1005)


@pytest.mark.parametrize(("words", "utterances"), [(300, 1), (340, 2)])
def test_a_shorter_pause_ends_an_utterance_of_20_s(words: int, utterances: int) -> None:
    """From its first label on; a word has two frames."""
    assert len(found([0] * 200 + [1, 0] * words + [0] * 10 + [2], [], LiveConfig())) == utterances


@settings(deadline=None)
@given(
    runs=st.lists(st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(0, 2 * PAUSE)), max_size=8),
    long=st.floats(0.2, 2.0),
    sizes=st.lists(st.integers(0, 30), max_size=12),
)
def test_utterances_are_those_of_the_reference_in_any_pieces(
    runs: list[tuple[int, int, int]], long: float, sizes: list[int]
) -> None:
    labels = [label for symbol, count, pause in runs for label in [symbol] * count + [0] * pause]
    config = LiveConfig(long_utterance_seconds=long)
    utterances = found(labels, sizes, config)
    places = [0, *ends(labels, config), len(labels)]
    assert frames(utterances) == [(first, last - first) for first, last in itertools.pairwise(places)]
    whole = found(labels, [], config)
    assert [(each.hypotheses, each.start, each.duration) for each in utterances] == [
        (each.hypotheses, each.start, each.duration) for each in whole
    ]


def test_news_are_frames_that_may_change_the_partial_result() -> None:
    utterances = Utterances(GreedySearch, MODEL, LiveConfig())
    assert not utterances.news
    utterances.step(rows_of([1]))
    assert utterances.news
    assert list(utterances.partial().tokens) == [1]
    assert not utterances.news
    utterances.step(np.log(np.array([[0.99, 0.005, 0.005]], np.float32)))
    assert not utterances.news
