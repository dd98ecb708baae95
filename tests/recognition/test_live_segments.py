"""Pauses end segments at the same frames, however the log-probabilities come in."""

import itertools
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from helpers.node import in_node, with_node
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.steps import Steps
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.live_segments import LONGEST_SILENCE, GreedySearch, LiveSegment, LiveSegments

MODEL = ModelConfig(  # an output frame every 30 ms, 2 frames late
    FrontendConfig(8000, power="adaptive"),
    (ConvolutionConfig(1, (5, 5), (2, 3)),),
    recurrent_layers=1, hidden=1, bidirectional=False, lookahead=2,
)  # fmt: skip
SPACE = 3  # a token as the others, but no speech
LOOK = 4  # output frames between two looks for a pause
PAUSE = 25  # output frames without speech that end a segment: 0.75 s


def rows_of(labels: list[int]) -> np.ndarray:
    """(T, 4) log-probabilities whose best outputs are these; 0 is the blank."""
    return np.log(np.full((len(labels), 4), 0.05) + 0.8 * np.eye(4)[labels]).astype(np.float32)


def found(labels: list[int], sizes: list[int], config: LiveConfig, endpoints: bool = True) -> list[LiveSegment]:
    """The segments of frames that come so many at once."""
    segments = LiveSegments(GreedySearch, MODEL, config, [0, SPACE], endpoints=endpoints, keeps=4)
    ended = [each for rows in np.split(rows_of(labels), np.cumsum(sizes)) for each in segments.step(rows)]
    return [*ended, segments.finish(len(labels) * MODEL.frame_seconds)]


def tokens(segments: list[LiveSegment]) -> list[list[int]]:
    return [list(segment.hypotheses[0].tokens) for segment in segments]


def frames(segments: list[LiveSegment]) -> list[tuple[int, int]]:
    """First frame and number of frames."""
    seconds = MODEL.frame_seconds
    return [(round(each.start / seconds), round(each.duration / seconds)) for each in segments]


def ends(labels: list[int], config: LiveConfig) -> list[int]:
    """The slow reference: the frames before which segments end."""
    begun, places, second = 0, [], 1 / MODEL.frame_seconds
    for end in range(1, len(labels) + 1):
        heard = [frame for frame in range(begun, end) if labels[frame] not in (0, SPACE)]
        if (end + MODEL.delay) % LOOK:
            continue
        if heard:
            is_long = end - heard[0] > config.long_segment_seconds * second
            pause = config.short_pause_seconds if is_long else config.pause_seconds
            over = end - 1 - heard[-1] >= pause * second
        else:
            over = end - begun > LONGEST_SILENCE * second
        if over:
            places.append(end)
            begun = end
    return places


def test_a_pause_ends_a_segment_at_the_next_look() -> None:
    """25 frames without speech are over with frame 27; looks for pauses come after 2, 6, ... 30 frames."""
    labels = [0, 0, 1] + [0] * 30 + [2] + [0] * 5
    segments = found(labels, [], LiveConfig())
    assert tokens(segments) == [[1], [2]]
    assert frames(segments) == [(0, 30), (30, 9)]
    assert [np.concatenate(each.rows).argmax(1).tolist() for each in segments] == [labels[:30], labels[30:]]


def test_a_space_within_a_pause_is_no_speech() -> None:
    labels = [0, 0, 1] + [0] * 12 + [SPACE, SPACE] + [0] * 16 + [2] + [0] * 5
    segments = found(labels, [], LiveConfig())
    assert frames(segments) == [(0, 30), (30, 9)]
    assert tokens(segments) == [[1, SPACE], [2]]


def test_a_pause_ends_no_segment_that_is_too_short() -> None:
    labels = [1] + [0] * 60 + [2] + [0] * 60 + [1]
    assert tokens(found(labels, [], LiveConfig())) == [[1], [2], [1]]
    assert tokens(found(labels, [], LiveConfig(least_segment_seconds=1.8))) == [[1, 2], [1]]


def test_without_endpoints_a_stream_is_one_segment() -> None:
    assert tokens(found([1] + [0] * 60 + [2], [], LiveConfig(), endpoints=False)) == [[1, 2]]


@pytest.mark.parametrize("labels", [[0] * 1100, [1] + [0] * 1100])
def test_the_search_begins_anew_after_a_long_silence(labels: list[int]) -> None:
    """30 s are 1,000 frames."""
    assert max(count for _, count in frames(found(labels, [], LiveConfig()))) in range(1001, 1005)


@pytest.mark.parametrize(("words", "segments"), [(300, 1), (340, 2)])
def test_a_shorter_pause_ends_a_segment_of_20_s(words: int, segments: int) -> None:
    """From its first word on; a word has two frames."""
    assert len(found([0] * 200 + [1, 0] * words + [0] * 10 + [2], [], LiveConfig())) == segments


def speech(longest: int) -> st.SearchStrategy[list[int]]:
    """Labels of up to 6 frames with pauses up to the longest between them."""
    runs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(0, longest)), max_size=12)
    return runs.map(lambda runs: [label for symbol, count, pause in runs for label in [symbol] * count + [0] * pause])


splits = st.lists(st.integers(0, 30), max_size=12)


@given(labels=speech(2 * PAUSE), long=st.floats(0.2, 2.0), sizes=splits)
def test_segments_are_those_of_the_reference_for_any_steps(labels: list[int], long: float, sizes: list[int]) -> None:
    config = LiveConfig(long_segment_seconds=long)
    segments = found(labels, sizes, config)
    places = [0, *ends(labels, config), len(labels)]
    assert frames(segments) == [(first, last - first) for first, last in itertools.pairwise(places)]
    whole = found(labels, [], config)
    assert [(each.hypotheses, each.start, each.duration) for each in segments] == [
        (each.hypotheses, each.start, each.duration) for each in whole
    ]


RUN = """
import { Greedy } from "PAGE/greedy.js";
import { LiveSegments } from "PAGE/segments.js";

const TOKENS = ["", "a", "b", " "];
const found = cases.map(({ facts, chunks }) => {
  const segments = new LiveSegments(() => new Greedy(TOKENS), { ...facts, tokens: TOKENS });
  const partial = chunks.map((rows) => {
    segments.step({ tokens: rows.flat(), frames: rows.length }, 0, rows.length);
    return segments.text(false);
  });
  return [segments.texts, segments.search.text(true), partial.at(-1)];
});
console.log(JSON.stringify(found));
"""


@with_node
def test_the_page_finds_the_same_segments(tmp_path: Path) -> None:
    """The machine in JavaScript, in Node, on the same log-probabilities, some of them of more than 20 and 30 s."""
    cases: list[tuple[list[int], list[int]]] = [([1, 0] * 340 + [0] * 10 + [2], []), ([1] + [0] * 2100 + [2], [])]

    @settings(database=None, derandomize=True)
    @given(labels=speech(2 * PAUSE), sizes=splits)
    def collect(labels: list[int], sizes: list[int]) -> None:
        cases.append((labels, sizes))

    collect()
    facts = {"steps": asdict(Steps.of(MODEL)), "frame_seconds": MODEL.frame_seconds}
    written, expected = [], []
    for labels, sizes in cases:
        chunks = np.split(rows_of(labels), np.cumsum(sizes))
        written.append({"facts": facts, "chunks": [rows.tolist() for rows in chunks]})
        written_out = ["".join("_ab "[token] for token in each) for each in tokens(found(labels, sizes, LiveConfig()))]
        texts = [" ".join(text.split()) for text in written_out]
        expected.append([texts[:-1], texts[-1], " ".join(filter(None, texts))])
    assert in_node(RUN, written, tmp_path) == expected
    assert sum(len(texts) > 1 for texts, _, _ in expected) > 20


def test_news_are_frames_that_may_change_the_partial_result() -> None:
    segments = LiveSegments(GreedySearch, MODEL, LiveConfig(), [0], keeps=2)
    assert not segments.news
    segments.step(rows_of([1]))
    assert segments.news
    assert list(segments.partial().tokens) == [1]
    assert not segments.news
    segments.step(np.log(np.array([[0.99, 0.005, 0.004, 0.001]], np.float32)))
    assert not segments.news


def test_there_is_no_partial_text_before_speech() -> None:
    """A search by phones finds words in silence as well, and their segment is dropped at its end."""
    segments = LiveSegments(GreedySearch, MODEL, LiveConfig(), [0, SPACE])
    segments.step(rows_of([SPACE, 0, SPACE]))
    assert segments.partial().tokens == ()
    segments.step(rows_of([1]))
    assert segments.partial().tokens == (SPACE, SPACE, 1)
