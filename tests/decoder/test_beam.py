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


def search(log_probs: Tensor, config: BeamConfig) -> list[Hypothesis]:
    return beam_search(log_probs, torch.tensor([log_probs.shape[1]]), config)[0]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(2, 4))
def test_unlimited_beam_equals_enumeration(seed: int, frames: int, outputs: int) -> None:
    log_probs = random_log_probs(seed, frames, outputs)
    expected = enumerate_strings(log_probs)
    found = search(log_probs, EXHAUSTIVE)
    assert {hypothesis.tokens for hypothesis in found} == set(expected)
    for hypothesis in found:
        assert math.exp(hypothesis.score) == pytest.approx(expected[hypothesis.tokens], rel=1e-9)
    assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)


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


def test_same_input_same_result() -> None:
    log_probs = torch.full((1, 6, 4), 0.25).log()  # nothing but ties
    assert search(log_probs, BeamConfig(3, best=3)) == search(log_probs, BeamConfig(3, best=3))


def test_impossible_symbols_are_never_found() -> None:
    log_probs = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]).log()
    assert all(2 not in hypothesis.tokens for hypothesis in search(log_probs, EXHAUSTIVE))


def test_boundaries() -> None:
    assert beam_search(torch.zeros(0, 4, 3), torch.zeros(0, dtype=torch.long)) == []
    assert search(torch.zeros(1, 0, 3), BeamConfig())[0].tokens == ()
    short = beam_search(random_log_probs(1, 6, 3), torch.tensor([2]))[0][0]
    assert short == search(random_log_probs(1, 6, 3)[:, :2], BeamConfig())[0]


def test_nan_is_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        search(torch.full((1, 2, 3), float("nan")), BeamConfig())


@pytest.mark.parametrize("wrong", [{"beam_width": 0}, {"max_symbols": 0}, {"best": 0}])
def test_empty_beams_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BeamConfig(**wrong)


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
