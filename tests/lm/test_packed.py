"""Packed models: the same states as in flat arrays, and the nearest log-probability that a byte can name."""

import itertools
import math
from pathlib import Path

import kenlm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lm.test_ngram import SMALL, corpus, write

from ds2.lm.arpa import write_arpa
from ds2.lm.automaton import Automaton, unpacked
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.lm.orders import NGramOrder
from ds2.lm.packed import LEAST, LEVELS, STEP, bits_for, coded, in_bits, read_all
from ds2.utils.errors import InputError


def test_scores_by_hand(tmp_path: Path) -> None:
    """As in test_ngram; so few log-probabilities are kept as they are."""
    model = NGram.load(write(tmp_path / "lm.arpa")).quantized()
    tens = -0.1 - 0.2 + (-0.15 - 0.6)  # the | <s>, cat | <s> the, </s> | the cat: backs off once
    assert model.score(["the", "cat"]) == pytest.approx(tens * math.log(10), abs=1e-6)
    tens = (-0.3 - 1.0) - 0.7 + (-0.2 - 1.0) - 0.5
    assert model.score(["dog", "cat", "dog"]) == pytest.approx(tens * math.log(10), abs=4 * STEP / 2)


def test_numbers_in_bits_by_hand() -> None:
    """101, 011, 110 from the lowest bit on, and a word more for the last read."""
    assert in_bits(np.array([5, 3, 6]), 3).tolist() == [0b110_011_101, 0]
    assert [bits_for(largest) for largest in (0, 1, 2, 255, 256)] == [1, 1, 2, 8, 9]


@given(st.integers(1, 32).flatmap(lambda bits: st.tuples(st.just(bits), st.lists(st.integers(0, 2**bits - 1)))))
def test_numbers_survive_bits(case: tuple[int, list[int]]) -> None:
    bits, numbers = case
    assert read_all(in_bits(np.array(numbers, np.int64), bits), bits, len(numbers)).tolist() == numbers


@given(st.lists(st.floats(-50, 0, width=32), max_size=LEVELS))
def test_few_values_are_kept(values: list[float]) -> None:
    levels, codes = coded(np.array(values, np.float32))
    assert levels[codes].tolist() == pytest.approx(values, abs=1e-9)


def test_of_many_values_each_gets_the_nearest_level() -> None:
    values = np.random.default_rng(0).normal(-5, 2, 20_000).astype(np.float32)
    levels, codes = coded(values)
    assert abs(values - levels[codes]) == pytest.approx(abs(values[:, None] - levels).min(1), abs=1e-6)
    assert abs(values - levels[codes]).max() <= (values.max() - values.min()) / 255 / 2 + 1e-6


@pytest.mark.parametrize(("order", "prune"), [(1, ()), (2, ()), (4, (0, 1)), (5, (0, 0, 1))])
def test_a_packed_model_has_the_states_of_the_flat_one(order: int, prune: tuple[int, ...]) -> None:
    """And in each state, for each word, the log-probability of the same n-grams, each within its rounding."""
    model = NGram.from_orders(*estimate(corpus(300), EstimateConfig(order, prune)))
    packed, flat = model.quantized(), model.automaton
    assert isinstance(flat, Automaton)
    again = unpacked(packed.automaton)
    for name in ("first", "words", "next", "shorter"):
        assert np.array_equal(getattr(again, name), getattr(flat, name)), name
    rounding = np.abs(again.backoffs - flat.backoffs).max()
    rounding = max(rounding, np.abs(again.log_probs - np.maximum(flat.log_probs, LEAST)).max())
    assert rounding < 0.05
    assert (packed.ngrams, packed.states, packed.start) == (model.ngrams, model.states, model.start)
    for state, word in itertools.product(range(model.states), set(model.words) - {"<s>"}):
        (ours, after), (theirs, expected) = packed.advance(state, word), model.advance(state, word)
        assert after == expected
        assert ours == pytest.approx(theirs, abs=float(order * rounding))
    assert NGram(model.words, again, order).score(["w1", "w2"]) == pytest.approx(packed.score(["w1", "w2"]), abs=1e-6)


def test_equals_kenlm_on_every_query(tmp_path: Path) -> None:
    """The packed model against KenLM with its values: the ARPA file is written from the packed model."""
    words, orders = estimate(corpus(), EstimateConfig(4))
    packed = NGram.from_orders(words, orders).quantized()
    write_arpa(tmp_path / "lm.arpa", words, packed.orders())
    theirs = kenlm.Model(str(tmp_path / "lm.arpa"))
    for sentence in [*corpus(100, seed=1), ["w1", "dog", "w2"], []]:
        for begin, end in itertools.product((True, False), repeat=2):
            expected = theirs.score(" ".join(sentence), bos=begin, eos=end)
            assert packed.score(sentence, begin, end) / math.log(10) == pytest.approx(expected, abs=1e-4)


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=12), st.integers(1, 5))
def test_any_corpus_is_packed_as_it_is(sentences: list[list[str]], order: int) -> None:
    """Within the rounding of single words: no more than 256 values are different in such models."""
    model = NGram.from_orders(*estimate(sentences, EstimateConfig(order)))
    packed = model.quantized()
    for sentence in sentences[:5]:
        assert packed.score(sentence) == pytest.approx(model.score(sentence), abs=(len(sentence) + 1) * STEP)


def test_the_packed_form_is_the_packed_model_and_small(tmp_path: Path) -> None:
    model = NGram.from_orders(*estimate(corpus(3000), EstimateConfig(3)))
    packed = model.quantized()
    packed.save(tmp_path / "lm")
    again = NGram.load(tmp_path / "lm")
    assert again.quantized() is again
    assert again.rounded
    assert isinstance(again.automaton.log_probs.base, np.memmap | np.ndarray)
    for name, array in packed.arrays.items():
        assert np.array_equal(again.arrays[name], array)
    assert sum(array.nbytes for array in again.arrays.values()) - 8 * LEVELS < 4 * model.ngrams


def test_single_words_end_at_what_16_bits_hold() -> None:
    words, [grams] = estimate([["a"]], EstimateConfig(1))
    grams.log_prob[words.index("a")] = -1e9
    packed = NGram.from_orders(words, [grams]).quantized()
    assert packed.advance(0, "a")[0] == LEAST == packed.single_log_probs[words.index("a")]


def test_n_grams_after_the_end_of_a_sentence_are_refused() -> None:
    words = ["<unk>", "</s>", "<s>", "a"]
    singles = NGramOrder(np.zeros(4, int), np.arange(4), np.full(4, -1.0), np.zeros(4))
    pairs = NGramOrder(np.array([1, 3]), np.array([3, 3]), np.full(2, -1.0), np.zeros(2))
    with pytest.raises(InputError, match="words follow </s>"):
        NGram.from_orders(words, [singles, pairs]).quantized()
    assert math.isfinite(NGram.from_orders(words, [singles]).quantized().score(["a"]))


def test_a_back_off_weight_of_the_end_of_a_sentence_needs_no_state(tmp_path: Path) -> None:
    text = SMALL.replace("-0.5\t</s>", "-0.5\t</s>\t-0.1")
    model = NGram.load(write(tmp_path / "lm.arpa", text)).quantized()
    assert model.score(["the", "cat"]) == NGram.load(write(tmp_path / "lm.arpa")).quantized().score(["the", "cat"])
