"""Greedy decoding against results by hand."""

import math

import pytest
import torch
from torch import Tensor

from ds2.decoder.greedy import greedy


def path(*tokens: int, outputs: int = 3, peak: float = 0.8) -> Tensor:
    """(1, T, V) log-probabilities whose best path is `tokens`."""
    rest = (1 - peak) / (outputs - 1)
    probabilities = torch.full((1, len(tokens), outputs), rest)
    for frame, token in enumerate(tokens):
        probabilities[0, frame, token] = peak
    return probabilities.log()


def test_merges_repeats_drops_blanks_and_tells_times() -> None:
    [hypothesis] = greedy(path(0, 1, 1, 0, 1, 2, 2, 0), torch.tensor([8]))
    assert hypothesis.tokens == (1, 1, 2)
    assert hypothesis.starts == (1, 4, 5)
    assert hypothesis.ends == (3, 5, 7)
    assert hypothesis.confidences == pytest.approx((0.8, 0.8, 0.8))
    assert hypothesis.score == pytest.approx(8 * math.log(0.8), rel=1e-5)


def test_confidence_is_the_best_frame_of_the_run() -> None:
    log_probs = torch.tensor([[[0.4, 0.6], [0.1, 0.9]]]).log()
    assert greedy(log_probs, torch.tensor([2]))[0].confidences == pytest.approx((0.9,))


def test_frames_behind_the_length_do_not_count() -> None:
    assert greedy(path(1, 0, 2, 2), torch.tensor([2]))[0].tokens == (1,)


@pytest.mark.parametrize("frames", [0, 1])
def test_shortest_inputs(frames: int) -> None:
    [hypothesis] = greedy(path(*[1] * frames) if frames else torch.zeros(1, 0, 3), torch.tensor([frames]))
    assert hypothesis.tokens == (1,) * frames


@pytest.mark.parametrize("lengths", [[-1], [4], [3, 3], []])
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"expected 1 numbers of frames from 0 to 3, got \["):
        greedy(path(1, 1, 1), torch.tensor(lengths, dtype=torch.long))


def test_nan_shows_in_the_score_unless_it_lies_behind_the_length() -> None:
    log_probs = path(1, 2, 0)
    log_probs[0, 2, 1] = math.nan
    assert math.isnan(greedy(log_probs, torch.tensor([3]))[0].score)
    assert greedy(log_probs, torch.tensor([2]))[0].score == pytest.approx(2 * math.log(0.8), rel=1e-5)


def test_empty_batch_and_all_blank() -> None:
    assert greedy(torch.zeros(0, 5, 3), torch.zeros(0, dtype=torch.long)) == []
    assert greedy(path(0, 0, 0), torch.tensor([3]))[0].tokens == ()
