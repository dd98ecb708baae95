"""Prefix beam search against all alignments, enumerated."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.decoder import BeamConfig, Hypothesis, Lexicon, beam_search, greedy
from ds2.errors import InputError

EXHAUSTIVE = BeamConfig(beam_width=10**6, cumulative_probability=1.0, max_symbols=10**6, best=10**6)


def random_log_probs(seed: int, frames: int, outputs: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(1, frames, outputs, generator=generator, dtype=torch.float64)).log_softmax(2)


def enumerate_strings(log_probs: Tensor) -> dict[tuple[int, ...], float]:
    """Label string -> probability, by summing over every path of every symbol at every frame."""
    outputs, rows = log_probs.shape[2], log_probs[0].tolist()
    strings: dict[tuple[int, ...], float] = {}
    for symbols in itertools.product(range(outputs), repeat=len(rows)):
        labels = tuple(symbol for symbol, _ in itertools.groupby(symbols) if symbol != 0)
        score = sum(row[symbol] for row, symbol in zip(rows, symbols, strict=True))
        strings[labels] = strings.get(labels, 0.0) + math.exp(score)
    return strings


def best_alignments(log_probs: Tensor) -> dict[tuple[int, ...], tuple[float, list[tuple[int, int, float]]]]:
    """Label string -> its most probable path: the score, and (start, end, highest probability) of each label."""
    outputs, rows = log_probs.shape[2], log_probs[0].tolist()
    best: dict[tuple[int, ...], tuple[float, list[tuple[int, int, float]]]] = {}
    for symbols in itertools.product(range(outputs), repeat=len(rows)):
        score = sum(row[symbol] for row, symbol in zip(rows, symbols, strict=True))
        runs = [list(run) for _, run in itertools.groupby(range(len(rows)), key=symbols.__getitem__)]
        runs = [run for run in runs if symbols[run[0]] != 0]
        labels = tuple(symbols[run[0]] for run in runs)
        if labels not in best or score > best[labels][0]:
            peaks = [math.exp(max(rows[time][symbols[time]] for time in run)) for run in runs]
            best[labels] = (score, [(run[0], run[-1] + 1, peak) for run, peak in zip(runs, peaks, strict=True)])
    return best


def search(log_probs: Tensor, config: BeamConfig) -> list[Hypothesis]:
    return beam_search(log_probs, torch.tensor([log_probs.shape[1]]), config)[0]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(2, 4))
def test_unlimited_beam_equals_enumeration(seed: int, frames: int, outputs: int) -> None:
    log_probs = random_log_probs(seed, frames, outputs)
    expected = enumerate_strings(log_probs)
    found = search(log_probs, EXHAUSTIVE)
    assert {hypothesis.tokens for hypothesis in found} == set(expected)
    for hypothesis in found:
        assert math.exp(hypothesis.score) == pytest.approx(expected[hypothesis.tokens], rel=1e-9)
    assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 3))
def test_times_and_confidences_are_those_of_the_best_alignment(seed: int, frames: int, outputs: int) -> None:
    log_probs = random_log_probs(seed, frames, outputs)
    expected = best_alignments(log_probs)
    for hypothesis in search(log_probs, EXHAUSTIVE):
        _, runs = expected[hypothesis.tokens]
        assert list(zip(hypothesis.starts, hypothesis.ends, strict=True)) == [(start, end) for start, end, _ in runs]
        assert hypothesis.confidences == pytest.approx([peak for _, _, peak in runs])


def test_finds_the_string_that_greedy_misses() -> None:
    log_probs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()
    lengths = torch.tensor([2])
    assert greedy(log_probs, lengths)[0].tokens == ()  # the path "blank blank" has 0.36
    assert beam_search(log_probs, lengths)[0][0].tokens == (1,)  # "a" has 0.64 over three paths


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8))
def test_times_are_ordered_and_inside_the_utterance(seed: int, frames: int, width: int) -> None:
    for hypothesis in search(random_log_probs(seed, frames, 4), BeamConfig(width, best=3)):
        assert len(hypothesis.tokens) == len(hypothesis.starts) == len(hypothesis.ends) == len(hypothesis.confidences)
        edges = [0, *itertools.chain(*zip(hypothesis.starts, hypothesis.ends, strict=True)), frames]
        assert edges == sorted(edges)
        assert all(start < end for start, end in zip(hypothesis.starts, hypothesis.ends, strict=True))
        assert all(0 <= confidence <= 1 for confidence in hypothesis.confidences)


def test_repeated_label_needs_a_blank_and_times_are_those_of_the_best_path() -> None:
    log_probs = torch.full((1, 5, 2), 0.01)
    for frame, token in enumerate([1, 0, 1, 1, 0]):
        log_probs[0, frame, token] = 0.99
    best = search(log_probs.log(), BeamConfig())[0]
    assert (best.tokens, best.starts, best.ends) == ((1, 1), (0, 2), (1, 4))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_pruning_symbols_keeps_a_confident_result(seed: int) -> None:
    log_probs = (10 * random_log_probs(seed, 6, 4)).log_softmax(2)
    assert search(log_probs, BeamConfig(50))[0].tokens == search(log_probs, EXHAUSTIVE)[0].tokens


def test_blank_is_tried_however_improbable() -> None:
    log_probs = torch.tensor([[[0.01, 0.99]]]).log()
    found = search(log_probs, BeamConfig(cumulative_probability=0.5, best=2))
    assert [hypothesis.tokens for hypothesis in found] == [(1,), ()]


@pytest.mark.parametrize("limit", [{"max_symbols": 1}, {"cumulative_probability": 0.5}])
def test_symbols_beyond_a_limit_are_not_tried(limit: dict[str, float]) -> None:
    log_probs = torch.tensor([[[0.1, 0.6, 0.3]]]).log()
    found = search(log_probs, BeamConfig(best=9, **limit))
    assert [hypothesis.tokens for hypothesis in found] == [(1,), ()]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_no_more_prefixes_than_the_width_are_kept(width: int) -> None:
    log_probs = torch.tensor([[[0.1, 0.6, 0.3]]]).log()
    found = search(log_probs, BeamConfig(width, best=9))
    assert [hypothesis.tokens for hypothesis in found] == [(1,), (2,), ()][:width]


@pytest.mark.parametrize(("width", "kept"), [(9, [(), (1,), (2,), (3,)]), (2, [(), (1,)])])
def test_ties_go_to_the_smaller_label_string(width: int, kept: list[tuple[int, ...]]) -> None:
    log_probs = torch.full((1, 1, 4), 0.25).log()
    assert [hypothesis.tokens for hypothesis in search(log_probs, BeamConfig(width, best=9))] == kept


def test_impossible_symbols_are_never_found() -> None:
    log_probs = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]).log()
    assert all(2 not in hypothesis.tokens for hypothesis in search(log_probs, EXHAUSTIVE))


def test_boundaries() -> None:
    assert beam_search(torch.zeros(0, 4, 3), torch.zeros(0, dtype=torch.long)) == []
    assert search(torch.zeros(1, 0, 3), BeamConfig())[0].tokens == ()
    short = beam_search(random_log_probs(1, 6, 3), torch.tensor([2]))[0][0]
    assert short == search(random_log_probs(1, 6, 3)[:, :2], BeamConfig())[0]


def test_ties_at_the_edge_of_the_beam_go_to_the_smaller_label_string() -> None:
    log_probs = torch.tensor([[[0.0, 0.4, 0.6]] * 2]).log()  # (1, 2) and (2, 1) tie; (2, 1) is met first
    assert [hypothesis.tokens for hypothesis in search(log_probs, BeamConfig(2, best=9))] == [(2,), (1, 2)]


def test_all_blank_gives_the_empty_string() -> None:
    log_probs = torch.tensor([[[1.0, 0.0, 0.0]] * 3]).log()
    assert search(log_probs, EXHAUSTIVE) == [Hypothesis()]


def test_an_impossible_frame_leaves_the_empty_string_with_no_probability() -> None:
    log_probs = torch.tensor([[[0.5, 0.5], [0.0, 0.0]]]).log()
    assert search(log_probs, BeamConfig()) == [Hypothesis(score=-math.inf)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_are_refused_only_inside_the_utterance(value: float) -> None:
    log_probs = random_log_probs(0, 3, 3).repeat(2, 1, 1)
    log_probs[1, 2, 1] = value
    assert len(beam_search(log_probs, torch.tensor([3, 2]))) == 2
    with pytest.raises(InputError, match="utterance 1: log_probs hold NaN"):
        beam_search(log_probs, torch.tensor([3, 3]))


@pytest.mark.parametrize("lengths", [[-1], [4], [3, 3]])
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"expected 1 numbers of frames from 0 to 3, got \["):
        beam_search(random_log_probs(0, 3, 3), torch.tensor(lengths))


@pytest.mark.parametrize("wrong", [{"beam_width": 0}, {"max_symbols": 0}, {"best": 0}])
def test_empty_beams_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BeamConfig(**wrong)


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1.1, math.nan])
def test_impossible_cumulative_probabilities_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="cumulative_probability"):
        BeamConfig(cumulative_probability=wrong)


SPACE, A, B = 1, 2, 3
LEXICON = Lexicon([(A,), (A, B)], SPACE)  # the words "a" and "ab"


def spells_words(tokens: tuple[int, ...]) -> bool:
    """Whether a label string is words of the lexicon between single spaces, none missing."""
    words = "".join(" ab"[token - 1] for token in tokens).split(" ")
    return all(word in ("a", "ab") for word in words[:-1]) and words[-1] in ("", "a", "ab")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_lexicon_finds_the_best_string_of_whole_words(seed: int, frames: int) -> None:
    log_probs = random_log_probs(seed, frames, 4)
    allowed = {tokens: p for tokens, p in enumerate_strings(log_probs).items() if spells_words(tokens)}
    config = BeamConfig(10**6, 1.0, 10**6, 10**6, LEXICON)
    found = {hypothesis.tokens: math.exp(hypothesis.score) for hypothesis in search(log_probs, config)}
    assert found == pytest.approx(allowed)
