"""Prefix beam search against an enumeration of all alignments."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.decoder import search_space
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.greedy import greedy
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.lexicon import Lexicon
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.utils.errors import InputError

EXHAUSTIVE = BeamConfig(10**6, math.inf, cumulative_probability=1.0, max_symbols=10**6, nbest=10**6)


def random_log_probs(seed: int, frames: int, outputs: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(1, frames, outputs, generator=generator, dtype=torch.float64)).log_softmax(2)


COPIES = torch.tensor([0, 0, 1, 1])  # label of each output: the third and the fourth sound alike


def random_biphones(seed: int, frames: int) -> Tensor:
    """(T, 2, 2), of which some make an output impossible."""
    generator = torch.Generator().manual_seed(seed)
    scores = -2 * torch.rand(frames, 2, 2, generator=generator)
    return torch.where(torch.rand(frames, 2, 2, generator=generator) < 0.1, -200.0, scores)


def score_of(rows: list[list[float]], symbols: tuple[int, ...], biphones: Tensor | None) -> float:
    """Log-probability of a path; what each label loses after the one before it is looked up frame by frame."""
    total, before, last, run = 0.0, 0, 0, 0
    for time, symbol in enumerate(symbols):
        if symbol and symbol != run:
            before, last = last, symbol
        run = symbol
        total += rows[time][symbol]
        if biphones is not None and symbol:
            total += float(biphones[time, COPIES[before], COPIES[last]])
    return total


def enumerate_strings(log_probs: Tensor, biphones: Tensor | None = None) -> dict[tuple[int, ...], float]:
    """Label string -> probability, by summing over every path of every symbol at every frame."""
    outputs, rows = log_probs.shape[2], log_probs[0].tolist()
    strings: dict[tuple[int, ...], float] = {}
    for symbols in itertools.product(range(outputs), repeat=len(rows)):
        labels = tuple(symbol for symbol, _ in itertools.groupby(symbols) if symbol != 0)
        score = score_of(rows, symbols, biphones)
        strings[labels] = strings.get(labels, 0.0) + math.exp(score)
    return strings


def best_alignments(
    log_probs: Tensor, biphones: Tensor | None = None
) -> dict[tuple[int, ...], tuple[float, list[tuple[int, int, float]]]]:
    """Label string -> its most probable path: the score, and (start, end, highest probability) of each label."""
    outputs, rows = log_probs.shape[2], log_probs[0].tolist()
    best: dict[tuple[int, ...], tuple[float, list[tuple[int, int, float]]]] = {}
    for symbols in itertools.product(range(outputs), repeat=len(rows)):
        score = score_of(rows, symbols, biphones)
        runs = [list(run) for _, run in itertools.groupby(range(len(rows)), key=symbols.__getitem__)]
        runs = [run for run in runs if symbols[run[0]] != 0]
        labels = tuple(symbols[run[0]] for run in runs)
        if labels not in best or score > best[labels][0]:
            peaks = [math.exp(max(rows[time][symbols[time]] for time in run)) for run in runs]
            best[labels] = (score, [(run[0], run[-1] + 1, peak) for run, peak in zip(runs, peaks, strict=True)])
    return best


def beam_search(log_probs: Tensor, lengths: Tensor, config: BeamConfig | None = None) -> list[list[Hypothesis]]:
    return BeamDecoder(config)(log_probs, lengths)


def search(log_probs: Tensor, config: BeamConfig) -> list[Hypothesis]:
    return beam_search(log_probs, torch.tensor([log_probs.shape[1]]), config)[0]


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(2, 4))
def test_unlimited_beam_equals_enumeration(seed: int, frames: int, outputs: int) -> None:
    log_probs = random_log_probs(seed, frames, outputs)
    expected = enumerate_strings(log_probs)
    found = search(log_probs, EXHAUSTIVE)
    assert {hypothesis.tokens for hypothesis in found} == set(expected)
    for hypothesis in found:
        assert math.exp(hypothesis.score) == pytest.approx(expected[hypothesis.tokens], rel=1e-9)
    assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 3))
def test_times_and_confidences_are_those_of_the_best_alignment(seed: int, frames: int, outputs: int) -> None:
    log_probs = random_log_probs(seed, frames, outputs)
    expected = best_alignments(log_probs)
    for hypothesis in search(log_probs, EXHAUSTIVE):
        _, runs = expected[hypothesis.tokens]
        assert list(zip(hypothesis.starts, hypothesis.ends, strict=True)) == [(start, end) for start, end, _ in runs]
        assert hypothesis.confidences == pytest.approx([peak for _, _, peak in runs])


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 2), min_size=1, max_size=3), st.integers(2, 4))
def test_biphones_weigh_every_string_and_its_best_alignment(seed: int, sizes: list[int], outputs: int) -> None:
    """In chunks of the given sizes."""
    log_probs, biphones = random_log_probs(seed, sum(sizes), outputs), random_biphones(seed, sum(sizes))
    decoder = BeamDecoder(EXHAUSTIVE, labels=COPIES[:outputs].numpy())
    stream = decoder.begin()
    for rows, pairs in zip(log_probs[0].split(sizes), biphones.split(sizes), strict=True):
        decoder.step([stream], [rows], [pairs])
    strings, alignments = enumerate_strings(log_probs, biphones), best_alignments(log_probs, biphones)
    for hypothesis in (found := decoder.finish(stream)):
        assert math.exp(hypothesis.score) == pytest.approx(strings.pop(hypothesis.tokens), rel=1e-6)
        _, runs = alignments[hypothesis.tokens]
        assert list(zip(hypothesis.starts, hypothesis.ends, strict=True)) == [(start, end) for start, end, _ in runs]
        assert hypothesis.confidences == pytest.approx([peak for _, _, peak in runs])
    assert found
    assert max(strings.values(), default=0.0) < 1e-40  # the others are impossible


def test_finds_the_string_that_greedy_misses() -> None:
    log_probs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()
    lengths = torch.tensor([2])
    assert greedy(log_probs, lengths)[0].tokens == ()  # the path "blank blank" has 0.36
    assert beam_search(log_probs, lengths)[0][0].tokens == (1,)  # "a" has 0.64 over three paths


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8))
def test_times_are_ordered_and_inside_the_utterance(seed: int, frames: int, width: int) -> None:
    for hypothesis in search(random_log_probs(seed, frames, 4), BeamConfig(width, nbest=3)):
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


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_pruning_symbols_keeps_a_confident_result(seed: int) -> None:
    log_probs = (10 * random_log_probs(seed, 6, 4)).log_softmax(2)
    assert search(log_probs, BeamConfig(50))[0].tokens == search(log_probs, EXHAUSTIVE)[0].tokens


def test_blank_is_tried_however_improbable() -> None:
    log_probs = torch.tensor([[[0.01, 0.99]]]).log()
    found = search(log_probs, BeamConfig(cumulative_probability=0.5, nbest=2))
    assert [hypothesis.tokens for hypothesis in found] == [(1,), ()]


@pytest.mark.parametrize("limit", [{"max_symbols": 1}, {"cumulative_probability": 0.5}])
def test_symbols_beyond_a_limit_are_not_tried(limit: dict[str, float]) -> None:
    log_probs = torch.tensor([[[0.1, 0.6, 0.3]]]).log()
    found = search(log_probs, BeamConfig(nbest=9, **limit))
    assert [hypothesis.tokens for hypothesis in found] == [(1,), ()]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_no_more_prefixes_than_the_width_are_kept(width: int) -> None:
    log_probs = torch.tensor([[[0.1, 0.6, 0.3]]]).log()
    found = search(log_probs, BeamConfig(width, nbest=9))
    assert [hypothesis.tokens for hypothesis in found] == [(1,), (2,), ()][:width]


def test_ties_are_broken_the_same_way_every_time() -> None:
    log_probs = torch.full((1, 3, 4), 0.25).log()
    results = {tuple(hypothesis.tokens for hypothesis in search(log_probs, BeamConfig(2, nbest=9))) for _ in range(3)}
    assert len(results) == 1
    assert len(results.pop()) == 2


def test_impossible_symbols_are_never_found() -> None:
    log_probs = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]).log()
    assert all(2 not in hypothesis.tokens for hypothesis in search(log_probs, EXHAUSTIVE))


def test_boundaries() -> None:
    assert beam_search(torch.zeros(0, 4, 3), torch.zeros(0, dtype=torch.long)) == []
    assert search(torch.zeros(1, 0, 3), BeamConfig())[0].tokens == ()
    short = beam_search(random_log_probs(1, 6, 3), torch.tensor([2]))[0][0]
    assert short == search(random_log_probs(1, 6, 3)[:, :2], BeamConfig())[0]


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


@pytest.mark.parametrize("name", ["score_threshold", "blank_skip"])
def test_impossible_limits_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        BeamConfig(**{name: 0.0})


@pytest.mark.parametrize("name", ["lm_weight", "word_bonus", "unknown_score", "unknown_letter_score"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e308, -1001.0])
def test_weights_are_numbers_of_a_sensible_size(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=name):
        BeamConfig(**{name: wrong})


@pytest.mark.parametrize("wrong", [{"beam_width": 0}, {"max_symbols": 0}, {"nbest": 0}])
def test_empty_beams_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BeamConfig(**wrong)


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1.1, math.nan])
def test_impossible_cumulative_probabilities_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="cumulative_probability"):
        BeamConfig(cumulative_probability=wrong)


SPACE, A, B = 1, 2, 3
SPELLINGS = {"a": (A,), "ab": (A, B), "ba": (B, A)}
LEXICON = Lexicon(SPELLINGS.values(), SPACE)
LM = NGram.from_orders(*estimate([["a", "ab"], ["ab", "a", "ba"], ["a"], ["a", "ab", "a"]], EstimateConfig(3)))
LM_WORDS = [LM.index[word] for word in SPELLINGS]
CLOSED = dataclasses.replace(EXHAUSTIVE, closed=True, lm_weight=0.8, word_bonus=0.6)


def words_of(tokens: tuple[int, ...]) -> list[str]:
    return "".join(" ab"[token - 1] for token in tokens).split(" ")


def spells_words(tokens: tuple[int, ...]) -> bool:
    """Whether a label string consists of words of the lexicon between single spaces."""
    words = words_of(tokens)
    return all(word in SPELLINGS for word in words[:-1]) and words[-1] in ("", *SPELLINGS)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_lexicon_finds_the_best_string_of_whole_words(seed: int, frames: int) -> None:
    log_probs = random_log_probs(seed, frames, 4)
    allowed = {tokens: p for tokens, p in enumerate_strings(log_probs).items() if spells_words(tokens)}
    decoder = BeamDecoder(CLOSED, LEXICON)
    found = decoder(log_probs, torch.tensor([frames]))[0]
    assert {hypothesis.tokens: math.exp(hypothesis.score) for hypothesis in found} == pytest.approx(allowed)


def letters_outside(word: str) -> int:
    """The number of letters of a word after the longest beginning that it shares with a word of the lexicon."""
    return sum(not any(known.startswith(word[:end]) for known in SPELLINGS) for end in range(1, len(word) + 1))


def gain_of_words(tokens: tuple[int, ...], config: BeamConfig) -> float:
    """The score that language model and bonuses give to a label string, from the model's score of the sentence."""
    words = [word for word in words_of(tokens) if word]
    unknown = sum(word not in SPELLINGS for word in words) * config.unknown_score
    unknown += sum(map(letters_outside, words)) * config.unknown_letter_score
    known = [word if word in SPELLINGS else "<unk>" for word in words]
    return config.lm_weight * LM.score(known) + config.word_bonus * len(words) + unknown


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_language_model_weighs_every_string_as_the_formula_says(seed: int, frames: int, closed: bool) -> None:
    log_probs = random_log_probs(seed, frames, 4)
    config = dataclasses.replace(CLOSED, closed=closed, unknown_score=-2.0, unknown_letter_score=-0.3)
    expected = {
        tokens: p * math.exp(gain_of_words(tokens, config))
        for tokens, p in enumerate_strings(log_probs).items()
        if spells_words(tokens) or not closed
    }
    found = BeamDecoder(config, LEXICON, LM, LM_WORDS)(log_probs, torch.tensor([frames]))[0]
    assert {hypothesis.tokens: math.exp(hypothesis.score) for hypothesis in found} == pytest.approx(expected, rel=1e-5)
    for hypothesis in found:
        assert hypothesis.gains == pytest.approx(gain_of_words(hypothesis.tokens, config), abs=1e-5)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_a_model_over_tokens_weighs_every_token(seed: int, frames: int) -> None:
    log_probs = random_log_probs(seed, frames, 4)
    lm = NGram.from_orders(*estimate([list("xyx"), list("zyx"), list("xx")], EstimateConfig(2)))
    numbers = [0, *(lm.index[word] for word in "xyz")]
    config = dataclasses.replace(EXHAUSTIVE, lm_weight=0.5, word_bonus=0.3)
    expected = {
        tokens: p * math.exp(0.5 * lm.score(["xyz"[token - 1] for token in tokens]) + 0.3 * len(tokens))
        for tokens, p in enumerate_strings(log_probs).items()
    }
    found = BeamDecoder(config, None, lm, numbers)(log_probs, torch.tensor([frames]))[0]
    assert {hypothesis.tokens: math.exp(hypothesis.score) for hypothesis in found} == pytest.approx(expected, rel=1e-5)


def test_a_boost_makes_a_hot_word_win() -> None:
    log_probs = torch.tensor([[[0.02, 0.02, 0.94, 0.02], [0.5, 0.0, 0.1, 0.4]]]).log()
    for nats, best in ((0.0, (A,)), (3.0, (A, B))):
        lexicon = Lexicon(SPELLINGS.values(), SPACE).with_hot({"ab": nats}, {"ab": [1]})
        decoder = BeamDecoder(dataclasses.replace(CLOSED, nbest=1), lexicon)
        assert decoder(log_probs, torch.tensor([2]))[0][0].tokens == best


def test_a_closed_search_leaves_an_unfinished_word_out_where_nothing_else_is_left() -> None:
    said = torch.eye(4, dtype=torch.float64)[[A, SPACE, B]].log()[None]  # "b" begins a word but is not one
    streamed = BeamDecoder(CLOSED, LEXICON)
    stream = streamed.begin()
    for row in said[0]:
        streamed.step([stream], [row[None]])
    for found in (BeamDecoder(CLOSED, LEXICON)(said, torch.tensor([3]))[0], streamed.finish(stream)):
        assert [(each.tokens, each.starts, each.ends) for each in found] == [((A,), (0,), (1,))]
    assert BeamDecoder(CLOSED, LEXICON)(said[:, 2:], torch.tensor([1]))[0][0].tokens == ()
    [found] = BeamDecoder(CLOSED, LEXICON)(random_log_probs(3, 9, 4)[..., [0, 1, 3, 3]], torch.tensor([9]))
    assert len({each.tokens for each in found}) == len(found)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.integers(1, 30))
def test_chunks_of_any_size_give_the_same(seed: int, sizes: list[int], width: int) -> None:
    log_probs = random_log_probs(seed, 40, 4).float()
    decoder = BeamDecoder(BeamConfig(width, nbest=5, lm_weight=0.5), LEXICON, LM, LM_WORDS)
    stream, start = decoder.begin(), 0
    for size in itertools.cycle(sizes):
        decoder.step([stream], [log_probs[0, start : start + size]])
        start += size
        if start >= 40:
            break
    assert decoder.finish(stream) == decoder(log_probs, torch.tensor([40]))[0]


def test_many_streams_step_together_and_an_ended_one_is_refused() -> None:
    decoder = BeamDecoder(BeamConfig(20))
    log_probs = [random_log_probs(seed, 12, 5)[0] for seed in range(3)]
    streams = [decoder.begin() for _ in log_probs]
    decoder.step(streams, [rows[:7] for rows in log_probs])
    decoder.step(streams[:2], [rows[7:] for rows in log_probs[:2]])
    decoder.step(streams[2:], [rows[7:] for rows in log_probs[2:]])
    for stream, rows in zip(streams, log_probs, strict=True):
        assert decoder.finish(stream)[0] == decoder(rows.unsqueeze(0), torch.tensor([12]))[0][0]
    with pytest.raises(ValueError, match="ended"):
        decoder.step(streams[:1], [log_probs[0]])


def test_partial_results_and_what_of_them_is_certain() -> None:
    log_probs = torch.full((6, 4), 0.004)
    for frame, token in enumerate([A, 0, B, 0, SPACE, A]):
        log_probs[frame, token] = 0.988
    decoder = BeamDecoder(BeamConfig(3))
    stream = decoder.begin()
    texts, certain = [], []
    for row in log_probs.log():
        decoder.step([stream], [row.unsqueeze(0)])
        texts.append(decoder.partial(stream).tokens)
        certain.append(decoder.stable(stream))
    assert texts == [(A,), (A,), (A, B), (A, B), (A, B, SPACE), (A, B, SPACE, A)]
    assert certain == sorted(certain)
    assert 0 < certain[-1] <= 4
    assert decoder.finish(stream)[0].tokens[: certain[-1]] == texts[-1][: certain[-1]]


@pytest.mark.parametrize("config", [BeamConfig(8), BeamConfig(8, recombine=True, nbest=9)], ids=["plain", "lattice"])
def test_an_hour_of_babble_stays_in_bounds(config: BeamConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is often tidied gives the same result as one that never is, though of the lattice it forgets what
    is old; live prefixes bound the nodes."""
    log_probs = random_log_probs(3, 20_000, 8)[0].float()

    def run(tidy: int) -> tuple[list[Hypothesis], int]:
        monkeypatch.setattr(search_space, "TIDY", tidy)
        decoder = BeamDecoder(config, Lexicon([(A,), (B, A), (A, B, 4)], SPACE), None)
        stream, largest = decoder.begin(), 0
        for rows in log_probs.split(500):
            decoder.step([stream], [rows])
            largest = max(largest, *map(len, (stream.beam.nodes, stream.beam.runs, stream.beam.arcs)))
        return decoder.finish(stream), largest

    whole, unbounded = run(10**9)
    tidied, largest = run(1000)
    assert tidied[0] == whole[0]
    assert tidied == whole or config.recombine
    length = len(whole[0].tokens)
    assert unbounded > 5 * largest
    assert largest < 2 * length + (150_000 if config.recombine else 20_000)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 25))
def test_confident_frames_may_be_skipped(seed: int, frames: int) -> None:
    """Frames that are certainly blank change nothing, whether the search skips them or not."""
    log_probs = random_log_probs(seed, frames, 4)
    log_probs[0, ::3] = torch.tensor([0.0, -40.0, -40.0, -40.0])
    plain, skipping = (search(log_probs, BeamConfig(50, blank_skip=skip))[0] for skip in (1.0, 0.999))
    assert skipping.tokens == plain.tokens


def test_the_widest_beam_scores_best() -> None:
    """A wider beam may score worse than a narrow one by chance, but the widest never does."""
    for seed in range(20):
        log_probs = random_log_probs(seed, 30, 6)
        scores = [search(log_probs, BeamConfig(width, math.inf))[0].score for width in (1, 4, 16, 1024)]
        assert max(scores) == pytest.approx(scores[-1], abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((CLOSED,), "closed"), ((None, LEXICON, LM), "together"), ((None, LEXICON, None, LM_WORDS), "together")],
)
def test_decoders_that_lack_something_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BeamDecoder(*arguments)
