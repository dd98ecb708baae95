"""The neural language model against PyTorch's LSTM in float64, and pieces of words against a plain way to merge."""

import itertools
from collections import Counter
from random import Random

import numpy as np
import pytest
import torch
from helpers.neural import random_arrays
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds2.lm.neural import HISTORY, MATRICES, Beginnings, NeuralModel, array_shapes
from ds2.lm.pieces import Pieces, joined, learn_pieces, letters_of
from ds2.utils.errors import InputError

WIDTH, CELLS = 6, 10
PIECES = ["_a", "_b", "_c", "a", "b", "c", "_ab", "bc"]
WORDS = st.text("abc", min_size=1, max_size=5)


def arrays_of(seed: int) -> dict[str, np.ndarray]:
    return random_arrays(PIECES, WIDTH, CELLS, seed)


def log_probability(arrays: dict[str, np.ndarray], words: list[str]) -> float:
    """By PyTorch, one sentence after another."""
    weights = {name: torch.tensor(arrays[name] * arrays[f"{name}_scales"][:, None]).double() for name in MATRICES}
    vectors = {name: torch.from_numpy(values).double() for name, values in arrays.items() if name not in MATRICES}
    lstm = torch.nn.LSTM(WIDTH, CELLS, proj_size=WIDTH).double()
    names = {"input": "weight_ih_l0", "recurrent": "weight_hh_l0", "projection": "weight_hr_l0"}
    state = {theirs: weights[ours] for ours, theirs in names.items()}
    lstm.load_state_dict(state | {"bias_ih_l0": vectors["gate_bias"], "bias_hh_l0": torch.zeros(4 * CELLS)})
    numbers = [number for word in words for number in Pieces(PIECES).divide(word) or ()]
    outputs, _ = lstm(weights["embedding"][[0, *numbers]] * WIDTH**0.5)
    normal = torch.nn.functional.layer_norm(outputs, (WIDTH,), vectors["norm_scale"], vectors["norm_bias"])
    scores = torch.nn.functional.linear(normal, weights["embedding"], vectors["output_bias"])
    return -torch.nn.functional.cross_entropy(scores, torch.tensor([*numbers, 0]), reduction="sum").item()


def errors(scores: list[float], expected: list[float], sentences: list[list[str]]) -> np.ndarray:
    """(N,) nats for each piece."""
    pieces = [1 + sum(len(Pieces(PIECES).divide(word) or ()) for word in words) for words in sentences]
    return np.abs(np.array(scores) - expected) / pieces


@settings(max_examples=50)
@given(sentences=st.lists(st.lists(WORDS, max_size=6), max_size=8), seed=st.integers(0, 3))
@example(sentences=[["bcba", "cca", "cccb", "ccbcc", "bcbba"]], seed=0)  # 0.05 nats with weights of deviation 1
def test_scores_are_those_of_pytorch(sentences: list[list[str]], seed: int) -> None:
    """But for the rounding of activations to 16 bits."""
    arrays = arrays_of(seed)
    model = NeuralModel(PIECES, arrays)
    expected = [log_probability(arrays, words) for words in sentences]
    alone = [score for [score] in model.scores([[words] for words in sentences])]
    assert np.all(errors(alone, expected, sentences) < 5e-4)
    assert np.all(errors([model.score(words) for words in sentences], expected, sentences) < 5e-4)
    firsts = [scores[0] for scores in model.scores([sentences[number:] for number in range(len(sentences))])]
    assert np.all(errors(firsts, expected, sentences) < 5e-4)


@pytest.mark.parametrize("seed", range(4))
def test_the_rounding_hardly_changes_most_scores(seed: int) -> None:
    random, arrays = Random(seed), arrays_of(seed)
    sentences = [["".join(random.choices("abc", k=1 + number % 5)) for _ in range(number % 7)] for number in range(100)]
    expected = [log_probability(arrays, words) for words in sentences]
    model = NeuralModel(PIECES, arrays)
    assert np.median(errors(list(map(model.score, sentences)), expected, sentences)) < 2e-5


def test_probabilities_of_all_sentences_of_a_length_add_up() -> None:
    """One step after another: the ends and the continuations of the empty sentence."""
    model = NeuralModel(PIECES, arrays_of(1))
    first = [[], *([piece.removeprefix("_")] for piece in PIECES if piece.startswith("_"))]
    ended = np.exp([score for [score] in model.scores([[words] for words in first])])
    assert 0 < ended[0] < 1
    assert ended.sum() < 1


NUMBERS = st.lists(st.integers(1, 2), max_size=HISTORY + 4)


@given(st.lists(st.lists(NUMBERS, max_size=5), min_size=1, max_size=3).filter(any))
@settings(max_examples=300)
def test_the_beginnings_are_those_of_the_sentences(nbests: list[list[list[int]]]) -> None:
    graph = Beginnings.of(nbests)
    texts: list[tuple[int, ...]] = [()]  # of the nodes
    for parent, piece in zip(graph.parents[1:], graph.pieces[1:], strict=True):
        texts.append((*texts[parent], int(piece)))
    asked = {(owner, len(texts[node])): (node, piece) for node, piece, owner in graph.asked.tolist()}
    nodes: dict[tuple[int, ...], tuple[int, tuple[int, ...]]] = {}  # by n-best, length and ending, with the first text
    sentences = [(number, sentence) for number, nbest in enumerate(nbests) for sentence in nbest]
    for owner, (number, sentence) in enumerate(sentences):
        for place, follows in enumerate([*sentence, 0]):
            node, piece = asked.pop((owner, place))
            assert piece == follows
            ending = tuple(sentence[max(0, place - HISTORY) : place])
            same, text = nodes.setdefault((number * (place > 0), place, *ending), (node, tuple(sentence[:place])))
            assert node == same
            assert texts[node][-HISTORY:] == ending
            if sentence == nbests[number][0]:
                assert texts[node] == text
    assert not asked
    assert len({node for node, _ in nodes.values()}) == len(nodes) == len(texts)
    longest = max(len(sentence) for _, sentence in sentences)
    assert [set(map(len, texts[a:b])) for a, b in itertools.pairwise(graph.levels)] == [{n} for n in range(longest + 1)]
    assert (np.diff(graph.asked[:, 0]) >= 0).all()


def test_beginnings_that_end_alike_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = [[1, 2, 3], [1, 2, 2], [1, 2], [1, 2, 3]]
    assert Beginnings.of([nbest]).levels == [0, 1, 2, 3, 5]
    assert Beginnings.of([nbest, nbest]).levels == [0, 1, 3, 5, 9]
    same = [2] * HISTORY
    assert Beginnings.of([[[1, *same], [3, *same]]]).levels == [0, 1, *range(3, 2 * HISTORY + 2, 2), 2 * HISTORY + 2]
    model, rows = NeuralModel(PIECES, arrays_of(1)), []
    product = model._product
    monkeypatch.setattr(
        model, "_product", lambda name, x, *bias: rows.append((name, len(x))) or product(name, x, *bias)
    )
    model.scores([[["a", "b", "c"], ["a", "b", "b"], ["a", "b"], ["a", "b", "c"]]])
    assert [count for name, count in rows if name == "projection"] == [1, 1, 1, 2]
    assert [count for name, count in rows if name == "embedding"] == [5]


@pytest.mark.parametrize("count", [127, 384])
def test_many_sentences_score_as_one_by_one(count: int) -> None:
    model, random = NeuralModel(PIECES, arrays_of(1)), np.random.default_rng(1)
    sentences = [random.choice(["a", "b", "c"], length).tolist() for length in random.integers(0, 6, count)]
    found = [score for [score] in model.scores([[each] for each in sentences])]
    assert found == pytest.approx([model.score(each) for each in sentences], abs=1e-6)


def test_the_first_sentence_of_an_nbest_scores_as_alone_whatever_stands_beside_it() -> None:
    model, random = NeuralModel(PIECES, arrays_of(1)), np.random.default_rng(1)
    nbests = [
        [random.choice(["a", "b", "c"], length).tolist() for length in each] for each in random.integers(0, 20, (9, 30))
    ]
    found = model.scores(nbests)
    assert [each[0] for each in found] == pytest.approx([model.score(nbest[0]) for nbest in nbests])
    for nbest, scores in zip(nbests, found, strict=True):
        [alone] = model.scores([nbest])
        assert scores == pytest.approx(alone)
    assert model.scores([]) == []
    assert model.scores([[], [[]], []]) == [[], [model.score([])], []]


def test_a_difference_far_back_no_longer_counts() -> None:
    """After HISTORY pieces that are the same, what follows is scored as after the first sentence."""
    model = NeuralModel(PIECES, arrays_of(1))
    same, more = ["a"] * HISTORY, ["b", "c", "b"]
    [[first, longer], [first_alone, other, other_longer]] = model.scores(
        [[["b", *same], ["b", *same, *more]], [["b", *same], ["c", *same], ["c", *same, *more]]]
    )
    assert first == pytest.approx(first_alone, abs=1e-5)
    assert other_longer - other == pytest.approx(longer - first, abs=1e-5)
    assert abs(model.score(["c", *same, *more]) - model.score(["c", *same]) - (longer - first)) > 1e-4


def test_a_word_with_other_letters_is_not_known_and_left_out() -> None:
    model = NeuralModel(PIECES, arrays_of(1))
    assert model.knows("abc")
    assert not model.knows("abd")
    assert model.score(["a", "xyz", "b"]) == model.score(["a", "b"])


def test_a_damaged_model_is_refused() -> None:
    arrays = arrays_of(1)
    no_number = {**arrays, "norm_bias": np.full(WIDTH, np.nan, np.float32)}
    wide = {**arrays, "input": arrays["input"].astype(np.int16)}
    short, more = {**arrays, "gate_bias": arrays["gate_bias"][1:]}, {**arrays, "more": arrays["gate_bias"]}
    for damaged in ({}, short, more, wide, no_number):
        with pytest.raises(InputError, match="neural language model is damaged"):
            NeuralModel(PIECES, damaged)
    for width, cells in ((0, 1), (1, 0)):
        shapes = array_shapes(len(PIECES) + 1, width, cells)
        empty = {name: np.zeros(shape, np.int8 if name in MATRICES else np.float32) for name, shape in shapes.items()}
        with pytest.raises(InputError, match="neural language model is damaged"):
            NeuralModel(PIECES, empty)
    for pieces in ([*PIECES[:-1], ""], [*PIECES[:-1], "_a"]):
        with pytest.raises(InputError, match="pieces of words are damaged"):
            NeuralModel(pieces, arrays)


@given(counts=st.dictionaries(WORDS, st.integers(1, 9), min_size=1, max_size=12), size=st.integers(1, 20))
def test_pieces_are_those_of_counting_anew_for_each_merge(counts: dict[str, int], size: int) -> None:
    words = {word: letters_of(word) for word in counts}
    expected = sorted({letter for parts in words.values() for letter in parts})
    while len(expected) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in words.items():
            for pair in itertools.pairwise(parts):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        words = {word: joined(parts, best) for word, parts in words.items()}
        expected += ["".join(best)] if "".join(best) not in expected else []
    pieces = learn_pieces(counts, size)
    assert pieces == expected
    for word in counts:
        numbers = Pieces(pieces).divide(word)
        assert numbers is not None
        assert "".join(pieces[number - 1] for number in numbers) == f"_{word}"


def test_a_word_is_divided_by_the_earliest_merges() -> None:
    pieces = ["_l", "_n", "e", "o", "r", "s", "t", "w", "es", "est", "_lo", "_low"]
    assert [pieces[number - 1] for number in Pieces(pieces).divide("lowest") or ()] == ["_low", "est"]
    assert [pieces[number - 1] for number in Pieces(pieces).divide("newest") or ()] == ["_n", "e", "w", "est"]
    assert Pieces(pieces).divide("high") is None
