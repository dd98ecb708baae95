"""The batched search in torch finds the same hypotheses as the numba kernels, which search single utterances."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from decoder.test_beam import CLOSED, EXHAUSTIVE, LEXICON, LM, LM_WORDS, SPACE, SPELLINGS, A, random_log_probs
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.decoder import Hypothesis
from ds2.decoder.batched import BatchedDecoder, CandidateSymbols
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.device_tables import ngram_table
from ds2.decoder.lexicon import Lexicon
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.utils.errors import InputError

TOKEN_LM = NGram.from_orders(*estimate([list("xyx"), list("zyx"), list("xx")], EstimateConfig(3)))
TOKEN_NUMBERS = [0, *(TOKEN_LM.index[word] for word in "xyz")]
HOT = Lexicon(SPELLINGS.values(), SPACE).with_hot({"ab": 2.5, "ba": -1.0}, {"ab": [1], "ba": [2]})
# Phrases that begin alike, lie in each other, repeat themselves and end in a hot word.
PHRASES = HOT.with_hot({"a b": 1.5, "a b a": 0.7, "b a": 1.0, "a a b": 2.0}, {"a": [0], "b": [1]})
PROBLEMS = {
    "letters": (),
    "lexicon": (LEXICON,),
    "hot words": (HOT,),
    "words": (LEXICON, LM, LM_WORDS),
    "hot words and words": (HOT, LM, LM_WORDS),
    "phrases": (PHRASES,),
    "phrases and words": (PHRASES, LM, LM_WORDS),
    "tokens": (None, TOKEN_LM, TOKEN_NUMBERS),
    "tokens but for the space": (None, TOKEN_LM, [0, -1, *TOKEN_NUMBERS[2:]]),
}


def check_agreement(ours: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for found, wanted in zip(ours, expected, strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in wanted]
        for a, b in zip(found, wanted, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-4)
            assert a.gains == pytest.approx(b.gains, abs=1e-4)
            assert (a.starts, a.ends) == (b.starts, b.ends)
            assert a.confidences == pytest.approx(b.confidences, abs=1e-5)


def batch(seed: int, lengths: list[int], outputs: int = 4) -> tuple[Tensor, Tensor]:
    rows = torch.cat([random_log_probs(seed + i, max(lengths), outputs) for i in range(len(lengths))])
    return rows, torch.tensor(lengths)


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_an_unlimited_search_weighs_every_string_the_same(name: str, closed: bool) -> None:
    problem = PROBLEMS[name]
    if closed and (not problem or problem[0] is None):
        pytest.skip("a closed search needs a lexicon")
    config = dataclasses.replace(
        EXHAUSTIVE, closed=closed, lm_weight=0.8, word_bonus=0.6, unknown_score=-2.0, unknown_letter_score=-0.3
    )
    for seed in range(0, 60, 6):
        given_ = batch(seed, [5, 3, 0, 1, 4])
        found, wanted = BatchedDecoder(config, *problem)(*given_), BeamDecoder(config, *problem)(*given_)
        for ours, theirs in zip(found, wanted, strict=True):
            assert {h.tokens: h.score for h in ours} == pytest.approx({h.tokens: h.score for h in theirs}, abs=1e-6)
            assert {h.tokens: h.starts for h in ours} == {h.tokens: h.starts for h in theirs}


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(sorted(PROBLEMS)),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.integers(1, 30),
    st.floats(2.0, 12.0),
    st.sampled_from([1.0, 0.999, 0.9, 0.6]),
    st.integers(1, 4),
    st.sampled_from([1.0, 0.7]),
)
def test_a_pruned_search_finds_the_same(
    name: str, seed: int, lengths: list[int], width: int, threshold: float, cumulative: float, most: int, skip: float
) -> None:
    config = BeamConfig(width, threshold, cumulative, most, skip, 0.5, 0.7, -3.0, nbest=3)
    given_ = batch(seed, lengths)
    problem = PROBLEMS[name]
    check_agreement(BatchedDecoder(config, *problem)(*given_), BeamDecoder(config, *problem)(*given_))


def test_a_closed_vocabulary_is_kept_to() -> None:
    config = dataclasses.replace(CLOSED, beam_width=20, nbest=1)
    given_ = batch(7, [40, 25, 31])
    problem = (LEXICON, LM, LM_WORDS)
    check_agreement(BatchedDecoder(config, *problem)(*given_), BeamDecoder(config, *problem)(*given_))


def test_many_symbols_with_a_model_over_them() -> None:
    rng = np.random.default_rng(0)
    names = [chr(0x4E00 + number) for number in range(300)]
    lm = NGram.from_orders(*estimate([list(rng.choice(names, 12)) for _ in range(200)], EstimateConfig(3)))
    numbers = [0, *(lm.index.get(name, 0) for name in names)]
    log_probs, lengths = batch(3, [30, 20], len(names) + 1)
    config = BeamConfig(50, nbest=5)
    given_ = ((3 * log_probs).log_softmax(2), lengths)
    check_agreement(BatchedDecoder(config, None, lm, numbers)(*given_), BeamDecoder(config, None, lm, numbers)(*given_))


def test_single_precision_is_enough() -> None:
    log_probs, lengths = batch(11, [200, 150])
    config = BeamConfig(40, nbest=3)
    ours = BatchedDecoder(config, LEXICON, LM, LM_WORDS)(log_probs.float(), lengths)
    check_agreement(ours, BeamDecoder(config, LEXICON, LM, LM_WORDS)(log_probs.float(), lengths))


def test_the_table_of_a_language_model_answers_as_the_model_does() -> None:
    table = ngram_table(LM.automaton, LM.order, torch.device("cpu"))
    states = torch.arange(LM.states)[:, None].expand(-1, len(LM.words))
    words = torch.arange(len(LM.words)).expand_as(states)
    log_probs, after = table.advance(states, words)
    for state in range(len(states)):
        for number, word in enumerate(LM.words):
            log_prob, following = LM.advance(state, word)
            assert float(log_probs[state, number]) == pytest.approx(log_prob)
            assert int(after[state, number]) == following


def test_impossible_frames_and_impossible_words() -> None:
    nothing = torch.tensor([[[0.5, 0.5], [0.0, 0.0]]]).log()
    assert BatchedDecoder()(nothing, torch.tensor([2])) == [[Hypothesis(score=-math.inf)]]
    unfinished = torch.tensor([[[0.0, 0.0, 0.0, 1.0]]]).log()  # "b" begins a word but is not one
    assert BatchedDecoder(CLOSED, LEXICON)(unfinished, torch.tensor([1]))[0][0].tokens == ()
    assert BatchedDecoder()(torch.zeros(0, 4, 3), torch.zeros(0, dtype=torch.long)) == []
    assert BatchedDecoder()(torch.zeros(1, 0, 3), torch.tensor([0])) == [[Hypothesis()]]


def test_what_lies_behind_the_end_does_not_count_and_what_lies_before_it_is_checked() -> None:
    log_probs = random_log_probs(0, 3, 4).repeat(2, 1, 1)
    log_probs[1, 2, A] = math.nan
    alone = BatchedDecoder()(log_probs[:1, :2], torch.tensor([2]))[0]
    assert BatchedDecoder()(log_probs, torch.tensor([3, 2]))[1] == alone
    with pytest.raises(InputError, match="utterance 1: log_probs hold NaN"):
        BatchedDecoder()(log_probs, torch.tensor([3, 3]))
    with pytest.raises(ValueError, match="expected 2 numbers of frames"):
        BatchedDecoder()(log_probs, torch.tensor([4, 4]))


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_frame_waits_for_what_is_computed(name: str) -> None:
    """Tensors without data pass through a frame: no operation reads a value, and no shape depends on one."""
    decoder = BatchedDecoder(BeamConfig(8), *PROBLEMS[name])
    decoder._load_tables(torch.device("meta"))
    beam = decoder._begin(2)
    for _ in range(3):
        blank, labels = torch.zeros(2, 1, device="meta"), torch.zeros(2, 3, device="meta")
        beam = decoder._step(beam, CandidateSymbols(blank.double(), labels.long(), labels.double()))
    assert beam.label.shape == (2, 8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gpu_finds_the_same(name: str) -> None:
    config = BeamConfig(30, nbest=3, lm_weight=0.5)
    log_probs, lengths = batch(5, [60, 40, 1])
    found = BatchedDecoder(config, *PROBLEMS[name])(log_probs.cuda(), lengths.cuda())
    check_agreement(found, BeamDecoder(config, *PROBLEMS[name])(log_probs, lengths))
