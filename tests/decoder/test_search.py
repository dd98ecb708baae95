"""The compiled search finds what the slow, plain search finds, whatever is pruned."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from decoder.test_beam import LEXICON, LM, LM_WORDS, SPACE, SPELLINGS, random_log_probs
from helpers.beam_reference import Found, ReferenceSearch
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.decoder import reads, search_space
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.lattice import MOST_ARCS
from ds2.decoder.lexicon import Lexicon
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram

TOKEN_LM = NGram.from_orders(*estimate([list("xyx"), list("zyx"), list("xx")], EstimateConfig(3)))
TOKEN_NUMBERS = [0, *(TOKEN_LM.index[word] for word in "xyz")]
HOT = Lexicon(SPELLINGS.values(), SPACE).with_hot({"ab": 2.5, "ba": -1.0}, {"ab": [1], "ba": [2]})
# Phrases that begin alike, lie in each other, repeat themselves, are to be avoided, and end in a hot word.
PHRASES = HOT.with_hot(
    {"a b": 1.5, "a b a": 0.7, "b a": 1.0, "a a b": 2.0, "a a": -0.8, "b b": -1.5}, {"a": [0], "b": [1]}
)
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


@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted(PROBLEMS)),
    seed=st.integers(0, 10**6),
    frames=st.integers(0, 25),
    config=st.builds(
        BeamConfig,
        beam_width=st.integers(1, 30),
        score_threshold=st.floats(2.0, 12.0),
        cumulative_probability=st.sampled_from([1.0, 0.999, 0.9, 0.6]),
        max_symbols=st.integers(1, 4),
        blank_skip=st.sampled_from([1.0, 0.7]),
        lm_weight=st.floats(0.1, 1.5),
        word_bonus=st.floats(-0.5, 2.0),
        unknown_score=st.floats(-5.0, 1.0),
        unknown_letter_score=st.floats(-2.0, 0.5),
        recombine=st.booleans(),
        nbest=st.just(5),
    ),
    closed=st.booleans(),
    eager=st.booleans(),
)
def test_it_finds_what_the_plain_search_finds(
    name: str, seed: int, frames: int, config: BeamConfig, closed: bool, eager: bool
) -> None:
    """Strings, scores and gains, half-way as well."""
    problem = PROBLEMS[name]
    closed = closed and bool(problem) and problem[0] is not None
    config = dataclasses.replace(config, closed=closed, eager=eager)
    decoder, log_probs = BeamDecoder(config, *problem), random_log_probs(seed, frames, 4)
    reference = ReferenceSearch(decoder)
    expected = reference.best(log_probs[0].numpy())[: config.nbest]
    [found] = decoder(log_probs, torch.tensor([frames]))
    (check_lattice if config.recombine else check_same)(found, expected)
    stream = decoder.begin()
    decoder.step([stream], [log_probs[0, : frames // 2]])
    partial, [best, *_] = decoder.partial(stream), reference.best(log_probs[0, : frames // 2].numpy(), ended=False)
    assert (partial.tokens, partial.score) == (best.tokens, pytest.approx(best.score, abs=1e-6))


def check_same(found: list[Hypothesis], expected: list[Found]) -> None:
    assert [hypothesis.tokens for hypothesis in found] == [each.tokens for each in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([each.score for each in expected], abs=1e-4)
    assert [hypothesis.gains for hypothesis in found] == pytest.approx([each.gains for each in expected], abs=1e-4)


def check_lattice(found: list[Hypothesis], held: list[Found]) -> None:
    """The lattice has the hypotheses that the beam holds, and better ones between them, but none before the first."""
    if not held:
        assert [hypothesis.score for hypothesis in found] == [-math.inf]
        return
    first = Found(found[0].tokens, pytest.approx(found[0].score, abs=1e-4), pytest.approx(found[0].gains, abs=1e-4))
    assert first == held[0]
    scores = [hypothesis.score for hypothesis in found]
    assert scores == sorted(scores, reverse=True)
    assert len({hypothesis.tokens for hypothesis in found}) == len(found)
    assert len(found) >= len(held)
    assert all(score >= each.score - 1e-4 for score, each in zip(scores, held, strict=False))
    for hypothesis in found:
        assert all(start < end for start, end in zip(hypothesis.starts, hypothesis.ends, strict=True))
        assert all(end <= start for end, start in zip(hypothesis.ends, hypothesis.starts[1:], strict=False))


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(PROBLEMS)),
    seed=st.integers(0, 10**6),
    labels=st.integers(1, 6),
    nbest=st.integers(1, MOST_ARCS + 1),
    tidy=st.sampled_from([0, 10**6]),
    room=st.sampled_from([1, 1 << 8]),
)
def test_the_lattice_has_the_best_of_all_strings(
    name: str, seed: int, labels: int, nbest: int, tidy: int, room: int
) -> None:
    """Where every string has one alignment, the n-best are those of a search that recombines nothing."""
    log_probs = random_log_probs(seed, 2 * labels, 4)
    # Every other frame is a blank for certain, and the others are none: nothing is summed, so nothing is approximate.
    log_probs[:, 1::2], log_probs[:, 1::2, 0], log_probs[:, ::2, 0] = -math.inf, 0.0, -math.inf
    config = BeamConfig(10**5, math.inf, cumulative_probability=1.0, max_symbols=10**5, nbest=nbest, lm_weight=0.5)
    [expected] = BeamDecoder(config, *PROBLEMS[name])(log_probs, torch.tensor([2 * labels]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_space, "TIDY", tidy)
        decoder = BeamDecoder(dataclasses.replace(config, recombine=True), *PROBLEMS[name])
    stream = decoder.begin()
    for frame in log_probs[0]:
        decoder.step([stream], [frame[None]])
    with pytest.MonkeyPatch.context() as patch:
        for name_of_room in ("READS", "LABELS", "WAYS"):
            patch.setattr(reads, name_of_room, room)
        found = decoder.finish(stream)
    assert [hypothesis.tokens for hypothesis in found] == [each.tokens for each in expected]
    assert [hypothesis.starts for hypothesis in found] == [each.starts for each in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([each.score for each in expected])
    assert [hypothesis.gains for hypothesis in found] == pytest.approx([each.gains for each in expected])


def test_many_symbols_with_a_model_over_them_in_single_precision() -> None:
    rng = np.random.default_rng(0)
    names = [chr(0x4E00 + number) for number in range(300)]
    lm = NGram.from_orders(*estimate([list(rng.choice(names, 12)) for _ in range(200)], EstimateConfig(3)))
    decoder = BeamDecoder(BeamConfig(50, nbest=5), None, lm, np.array([0, *(lm.index.get(name, 0) for name in names)]))
    log_probs = (3 * random_log_probs(3, 30, len(names) + 1)).log_softmax(2).float()
    [found] = decoder(log_probs, torch.tensor([30]))
    check_same(found, ReferenceSearch(decoder).best(log_probs[0].numpy())[:5])


def test_the_plain_search_by_hand() -> None:
    """Two frames of blank 0.6 and "a" 0.4: "" has 0.36, "a" 0.4 * 0.6 + 0.6 * 0.4 + 0.4 * 0.4 over three paths."""
    log_probs = torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log().numpy()
    found = ReferenceSearch(BeamDecoder(BeamConfig())).best(log_probs)
    assert [each.tokens for each in found] == [(1,), ()]
    assert [each.score for each in found] == pytest.approx(torch.tensor([0.64, 0.36]).log().tolist())


@settings(max_examples=60)
@given(
    name=st.sampled_from(["hot words", "hot words and words", "phrases", "phrases and words"]),
    seed=st.integers(0, 10**6),
    frames=st.integers(1, 20),
    closed=st.booleans(),
)
def test_boosts_are_what_hot_words_and_phrases_add(name: str, seed: int, frames: int, closed: bool) -> None:
    """What remains of the gains is that of the search without them."""
    config = BeamConfig(beam_width=300, score_threshold=50.0, nbest=300, closed=closed, lm_weight=0.8, word_bonus=0.3)
    decoder, log_probs = BeamDecoder(config, *PROBLEMS[name]), random_log_probs(seed, frames, 4)
    [hot], [plain] = (each(log_probs, torch.tensor([frames])) for each in (decoder, decoder.without_hot()))
    gains = {each.tokens: each.gains for each in plain if math.isfinite(each.score)}
    both = [each for each in hot if each.tokens in gains and math.isfinite(each.score)]
    assert [each.gains - each.boosts for each in both] == pytest.approx([gains[each.tokens] for each in both])
    assert not any(each.boosts for each in plain)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), frames=st.integers(1, 20))
def test_a_phrase_to_avoid_costs_no_text_without_it(seed: int, frames: int) -> None:
    config, log_probs = BeamConfig(score_threshold=10.0, closed=True), random_log_probs(seed, frames, 4)
    avoiding = LEXICON.with_hot({"a b": -30.0}, {"a": [0], "b": [1]})  # "b" is pronounced "ab"
    [[found, *_]], [[plain, *_]] = (
        BeamDecoder(config, lexicon)(log_probs, torch.tensor([frames])) for lexicon in (avoiding, LEXICON)
    )
    text, phrase = (SPACE, *plain.tokens, SPACE), (SPACE, *SPELLINGS["a"], SPACE, *SPELLINGS["ab"], SPACE)
    holds = any(text[at : at + len(phrase)] == phrase for at in range(len(text)))
    # What is pruned differs a little, as the last words differ in whether they may begin the phrase.
    assert holds or found.score > plain.score - 0.1
