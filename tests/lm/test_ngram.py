"""N-gram models: ARPA, the compiled form and estimation, against kenlm and against arithmetic."""

import dataclasses
import gzip
import itertools
import math
import random
import tempfile
from pathlib import Path

import kenlm
import numba
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.lm.arpa import read_arpa, write_arpa
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.utils.errors import InputError

SMALL = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.3
-0.5\t</s>
-0.7\tcat\t-0.2
-0.8\tthe\t-0.4

\\2-grams:
-0.1\t<s> the\t-0.05
-0.3\tthe cat\t-0.15
-0.6\tcat </s>
-0.9\tcat the\t-0.01

\\3-grams:
-0.2\t<s> the cat

\\end\\
"""


def corpus(sentences: int = 400, words: int = 30, seed: int = 0) -> list[list[str]]:
    """Sentences in which some words follow others far more often than average."""
    rng = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(words)]
    result = []
    for _ in range(sentences):
        word, sentence = rng.randrange(words), []
        for _ in range(rng.randint(1, 12)):
            word = (word * 7 + rng.choice([1, 1, 1, 2, 3, rng.randrange(words)])) % words
            sentence.append(vocabulary[word])
        result.append(sentence)
    return result


def write(path: Path, text: str = SMALL) -> Path:
    path.write_text(text)
    return path


def test_scores_by_hand(tmp_path: Path) -> None:
    model = NGram.load(write(tmp_path / "lm.arpa"))
    tens = -0.1 - 0.2 + (-0.15 - 0.6)  # the | <s>, cat | <s> the, </s> | the cat: backs off once
    assert model.score(["the", "cat"]) == pytest.approx(tens * math.log(10), abs=1e-5)
    tens = (-0.3 - 1.0) - 0.7 + (-0.2 - 1.0) - 0.5
    assert model.score(["dog", "cat", "dog"]) == pytest.approx(tens * math.log(10), abs=1e-5)


def test_equals_kenlm_on_every_query(tmp_path: Path) -> None:
    words, orders = estimate(corpus(), EstimateConfig(4))
    path = tmp_path / "lm.arpa"
    write_arpa(path, words, orders)
    theirs, ours = kenlm.Model(str(path)), NGram.load(path)
    rng = random.Random(1)
    known = [word for word in words if not word.startswith("<")]
    for _ in range(500):
        sentence = [rng.choice([*known, "dog"]) for _ in range(rng.randint(0, 10))]
        for begin, end in itertools.product((True, False), repeat=2):
            expected = theirs.score(" ".join(sentence), bos=begin, eos=end)
            assert ours.score(sentence, begin, end) / math.log(10) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_probabilities_sum_to_one_in_every_context(order: int) -> None:
    model = NGram.from_orders(*estimate(corpus(60, 8), EstimateConfig(order)))
    words = [word for word in model.words if word != "<s>"]
    rng = random.Random(2)
    for _ in range(60):
        state = model.start
        for word in [rng.choice(words) for _ in range(rng.randint(0, 6))]:
            _, state = model.advance(state, word)
        assert sum(math.exp(model.advance(state, word)[0]) for word in words) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("prune", [(0, 1), (0, 0, 1), (0, 1, 2)])
def test_pruned_models_are_smaller_and_still_sum_to_one(prune: tuple[int, ...]) -> None:
    whole = NGram.from_orders(*estimate(corpus(), EstimateConfig(3)))
    model = NGram.from_orders(*estimate(corpus(), EstimateConfig(3, prune)))
    assert model.ngrams < whole.ngrams
    words = [word for word in model.words if word != "<s>"]
    for first, second in itertools.product(words[:6], repeat=2):
        _, state = model.advance(model.start, first)
        _, state = model.advance(state, second)
        assert sum(math.exp(model.advance(state, word)[0]) for word in words) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("memory", [1e-4, 0.002, 0.05])
@pytest.mark.parametrize(("order", "prune", "vocabulary"), [(1, (), 0), (3, (), 0), (4, (0, 1, 2), 0), (2, (0, 1), 9)])
def test_the_size_of_slices_changes_no_bit(memory: float, order: int, prune: tuple[int, ...], vocabulary: int) -> None:
    config = EstimateConfig(order, prune, vocabulary)
    sentences = corpus(40 if memory < 0.001 else 400)
    words, orders = estimate(sentences, config)
    again, slices = estimate(iter(sentences), dataclasses.replace(config, memory=memory))
    assert again == words
    for grams, sliced in zip(orders, slices, strict=True):
        for field in dataclasses.fields(grams):
            whole, other = getattr(grams, field.name), getattr(sliced, field.name)
            assert other.dtype == whole.dtype
            assert np.array_equal(other, whole)


def test_no_file_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    estimate(corpus(50), EstimateConfig(3, memory=0.01))
    with pytest.raises(InputError):
        estimate([], EstimateConfig())
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_of_temporary_files_is_named(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(InputError, match=rf"{small_disk}: cannot hold the temporary files .*TMPDIR"):
        estimate(corpus(5000), EstimateConfig(3, memory=0.1))
    assert list(small_disk.iterdir()) == []


def test_kneser_ney_by_hand() -> None:
    """Two sentences, bigrams; the text is too small to estimate discounts, so they are 0.5, 1, 1.5."""
    model = NGram.from_orders(*estimate([["a", "b"], ["a", "c"]], EstimateConfig(2)))
    # single words count their left neighbours: a 1 (<s>), b 1, c 1, </s> 2; each gives 0.5, </s> gives 1: gamma 2.5 / 5
    even = 1 / 5  # <unk>, </s>, a, b, c
    single = {"a": 0.5 / 5 + 0.5 * even, "</s>": 1 / 5 + 0.5 * even, "<unk>": 0.5 * even}
    _, after_a = model.advance(model.start, "a")
    # after a: b 1, c 1, each gives 0.5
    assert math.exp(model.advance(after_a, "b")[0]) == pytest.approx(0.5 / 2 + 0.5 * single["a"])
    assert math.exp(model.advance(after_a, "</s>")[0]) == pytest.approx(0.5 * single["</s>"])
    assert math.exp(model.advance(after_a, "dog")[0]) == pytest.approx(0.5 * single["<unk>"])
    assert math.exp(model.advance(model.start, "a")[0]) == pytest.approx(1 / 2 + 0.5 * single["a"])


def test_a_limited_vocabulary_makes_unknown_words_likely() -> None:
    model = NGram.from_orders(*estimate([["a", "a", "b"], ["a", "c"]] * 5, EstimateConfig(2, vocabulary=1)))
    assert set(model.words) == {"<unk>", "<s>", "</s>", "a"}
    assert model.advance(model.start, "b")[0] > math.log(0.01)


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=12), st.integers(1, 5))
def test_any_corpus_gives_a_distribution(sentences: list[list[str]], order: int) -> None:
    model = NGram.from_orders(*estimate(sentences, EstimateConfig(order)))
    words = [word for word in model.words if word != "<s>"]
    for sentence in sentences[:3]:
        state = model.start
        for word in sentence:
            assert sum(math.exp(model.advance(state, known)[0]) for known in words) == pytest.approx(1.0, abs=1e-4)
            _, state = model.advance(state, word)


def test_the_compiled_form_is_the_model(tmp_path: Path) -> None:
    model = NGram.from_orders(*estimate(corpus(50), EstimateConfig(3)))
    model.save(tmp_path / "lm.safetensors")
    again = NGram.load(tmp_path / "lm.safetensors")
    assert again.words == model.words
    assert again.order == 3
    assert isinstance(again.automaton.log_probs.base, np.memmap | np.ndarray)
    for sentence in corpus(20, seed=3):
        assert again.score(sentence) == model.score(sentence)


def test_kernels_need_no_compilation_for_a_model_from_a_file(tmp_path: Path) -> None:
    """A mapped file cannot be written, and numba compiles anew for arrays that can."""
    model = NGram.from_orders(*estimate([["a", "b"], ["b"]], EstimateConfig(2)))
    for each in (model, model.quantized()):
        each.save(tmp_path / "lm")
        made, mapped = (numba.typeof(tuple(one.automaton)) for one in (each, NGram.load(tmp_path / "lm")))
        assert made == mapped


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    model = NGram.from_orders(*estimate(corpus(50), EstimateConfig(3)))
    files = []
    for name in map(str, range(8)):  # three metadata have six orders
        model.save(tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert len(set(files)) == 1
    assert safetensors.numpy.load(files[0]).keys() == model.arrays.keys()


def test_words_beyond_the_header_of_safetensors(tmp_path: Path) -> None:
    """safetensors ends at 100 MB, some six million words."""
    model = NGram.from_orders(*estimate([["a" * 101_000_000]], EstimateConfig(1)))
    model.save(tmp_path / "lm")
    assert NGram.load(tmp_path / "lm").words == model.words


def test_arpa_survives_a_round_trip_also_gzipped(tmp_path: Path) -> None:
    words, orders = estimate(corpus(50), EstimateConfig(3))
    write_arpa(tmp_path / "lm.arpa", words, orders)
    write_arpa(tmp_path / "lm.arpa.gz", words, orders)
    assert gzip.decompress((tmp_path / "lm.arpa.gz").read_bytes()) == (tmp_path / "lm.arpa").read_bytes()
    for path in tmp_path.iterdir():
        again_words, again = read_arpa(path)
        assert again_words == words
        for grams, expected in zip(again, orders, strict=True):
            assert np.array_equal(grams.word, expected.word)
            assert np.allclose(grams.log_prob, expected.log_prob, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("\\end\\", ""), "cut off"),
        (("ngram 2=4", "ngram 2=five"), "line 3: expected ngram 2=COUNT"),
        (("\\2-grams:", "\\3-grams:"), "expected \\\\2-grams:"),
        (("-0.3\tthe cat\t-0.15", "-0.3\tthe dog\t-0.15"), "'dog' stands in an n-gram"),
        (("-0.3\tthe cat\t-0.15", "x\tthe cat\t-0.15"), "line 15: not a 2-gram"),
        (("-0.3\tthe cat\t-0.15", "nan\tthe cat\t-0.15"), "line 15: not a 2-gram"),
        (("-0.3\tthe cat\t-0.15", "-0.3\tcat\t-0.15"), "line 15: not a 2-gram"),
        (("-0.9\tcat the\t-0.01", "-0.9\tthe cat\t-0.01"), "stands twice"),
        (("-0.1\t<s> the\t-0.05", "-0.1\tthe the\t-0.05"), "'<s> the cat' is there, but not its first words"),
    ],
)
def test_damaged_arpa_is_refused_by_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in SMALL
    with pytest.raises(InputError, match=message):
        NGram.load(write(tmp_path / "lm.arpa", SMALL.replace(*change)))


def test_n_grams_between_spaces_and_blank_lines_are_read_as_between_tabs(tmp_path: Path) -> None:
    """Blank lines count when an error names its line."""
    spaced = SMALL.replace("-0.1\t<s> the\t-0.05", "\n-0.1 <s> the -0.05").replace(
        "-0.3\tthe cat\t", "-0.3\tthe  cat\t"
    )
    for own, expected in zip(
        read_arpa(write(tmp_path / "s", spaced))[1], read_arpa(write(tmp_path / "t"))[1], strict=True
    ):
        for field in dataclasses.fields(own):
            assert np.array_equal(getattr(own, field.name), getattr(expected, field.name))
    with pytest.raises(InputError, match="line 16: not a 2-gram"):
        read_arpa(write(tmp_path / "damaged", spaced.replace("the  cat", "cat")))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 10)
    for path in (tmp_path / "noise", tmp_path / "missing"):
        with pytest.raises(InputError, match=str(path)):
            NGram.load(path)
    whole = tmp_path / "lm.safetensors"
    NGram.load(write(tmp_path / "lm.arpa")).save(whole)
    (tmp_path / "half").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(InputError, match="cut off"):
        NGram.load(tmp_path / "half")


@pytest.mark.parametrize("sentences", [[], [["a", "</s>"]]])
def test_impossible_corpora_are_refused(sentences: list[list[str]]) -> None:
    with pytest.raises(InputError):
        estimate(sentences, EstimateConfig(2))


@pytest.mark.parametrize(
    "change", [{"order": 0}, {"prune": (1,)}, {"prune": (0, 2, 1)}, {"vocabulary": -1}, {"words": ("a", "a")}]
)
def test_impossible_settings_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        EstimateConfig(**change)


def test_listed_words_are_the_vocabulary_seen_or_not() -> None:
    config = EstimateConfig(2, words=("c", "b", "dog"))
    model = NGram.from_orders(*estimate([["a", "a", "b"], ["a", "c"]] * 5, config))
    assert model.words == ("<unk>", "</s>", "<s>", "b", "c", "dog")
    words = [word for word in model.words if word != "<s>"]
    assert sum(math.exp(model.advance(model.start, word)[0]) for word in words) == pytest.approx(1.0, abs=1e-5)
    assert -math.inf < model.advance(model.start, "dog")[0] < model.advance(model.start, "c")[0]
    assert model.advance(model.start, "a")[0] > math.log(0.5)  # "a" is <unk>, which begins every sentence


def test_without_continuation_counts_a_single_word_is_as_probable_as_frequent() -> None:
    """san comes only before francisco: francisco is frequent, but follows one context."""
    text = [["san", "francisco"]] * 20 + [[word, "rose"] for word in "abcdefghij"]
    kneser_ney, raw = (
        NGram.from_orders(*estimate(text, EstimateConfig(2, continuation=continuation)))
        for continuation in (True, False)
    )
    assert kneser_ney.advance(0, "francisco")[0] < kneser_ney.advance(0, "rose")[0] - 1
    assert raw.advance(0, "francisco")[0] > raw.advance(0, "rose")[0]
    for model in (kneser_ney, raw):
        known = [word for word in model.words if word != "<s>"]
        assert sum(math.exp(model.advance(0, word)[0]) for word in known) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("order", "prune"), [(1, ()), (3, ()), (4, (0, 1)), (3, (0, 0, 1))])
def test_the_n_grams_of_an_automaton_are_those_that_it_was_made_of(order: int, prune: tuple[int, ...]) -> None:
    words, orders = estimate(corpus(), EstimateConfig(order, prune))
    for own, expected in zip(NGram.from_orders(words, orders, np.float64).orders(), orders, strict=True):
        for field in dataclasses.fields(own):
            assert np.array_equal(getattr(own, field.name), getattr(expected, field.name)), field.name


def test_an_n_gram_that_nothing_follows_needs_no_state() -> None:
    """After `the cat` the model predicts the same as after `cat`."""
    text = [["the", "cat"], ["a", "cat"], ["cat", "sat"]]
    model = NGram.from_orders(*estimate(text, EstimateConfig(3, (0, 0, 1))))
    assert model.states <= len(model.words)  # the root, and single words without </s> and <unk>
    [_, cat], [_, the_cat] = model.advance(0, "cat"), model.advance(model.advance(0, "the")[1], "cat")
    assert cat == the_cat != 0
