"""The compiled and the batched search find what the slow, plain search finds, whatever is pruned."""

import dataclasses

import pytest
import torch
from decoder.test_batched import PROBLEMS
from decoder.test_beam import random_log_probs
from helpers.beam_reference import ReferenceSearch
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.decoder.batched import BatchedDecoder
from ds2.decoder.beam import BeamConfig, BeamDecoder


@settings(max_examples=150, deadline=None)
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
        unknown_score=st.floats(-5.0, 0.0),
        unknown_letter_score=st.floats(-2.0, 0.0),
        recombine=st.booleans(),
        nbest=st.just(5),
    ),
    closed=st.booleans(),
)
def test_all_find_what_the_plain_search_finds(
    name: str, seed: int, frames: int, config: BeamConfig, closed: bool
) -> None:
    """Strings, scores and gains, half-way as well."""
    problem = PROBLEMS[name]
    config = dataclasses.replace(config, closed=closed and bool(problem) and problem[0] is not None)
    decoder, log_probs = BeamDecoder(config, *problem), random_log_probs(seed, frames, 4)
    reference = ReferenceSearch(decoder)
    expected = reference.best(log_probs[0].numpy())[: config.nbest]
    for search in (decoder, BatchedDecoder(config, *problem)):
        found = search(log_probs, torch.tensor([frames]))[0]
        assert [hypothesis.tokens for hypothesis in found] == [each.tokens for each in expected]
        assert [hypothesis.score for hypothesis in found] == pytest.approx([each.score for each in expected], abs=1e-4)
        assert [hypothesis.gains for hypothesis in found] == pytest.approx([each.gains for each in expected], abs=1e-4)
    stream = decoder.begin()
    decoder.step([stream], [log_probs[0, : frames // 2]])
    partial, [best, *_] = decoder.partial(stream), reference.best(log_probs[0, : frames // 2].numpy(), ended=False)
    assert (partial.tokens, partial.score) == (best.tokens, pytest.approx(best.score, abs=1e-6))


def test_the_plain_search_by_hand() -> None:
    """Two frames of blank 0.6 and "a" 0.4: "" has 0.36, "a" 0.4 * 0.6 + 0.6 * 0.4 + 0.4 * 0.4 over three paths."""
    log_probs = torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log().numpy()
    found = ReferenceSearch(BeamDecoder(BeamConfig())).best(log_probs)
    assert [each.tokens for each in found] == [(1,), ()]
    assert [each.score for each in found] == pytest.approx(torch.tensor([0.64, 0.36]).log().tolist())
