"""Viterbi alignment against all paths, enumerated, and on matrices whose path one can see."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ds2.ctc.alignment import ctc_align, frame_labels
from ds2.ctc.array_alignment import STAR
from ds2.utils.errors import InputError


def peaky(symbols: list[int], outputs: int = 4) -> Tensor:
    """(T, V) log-probabilities, 0.9 on one output each frame."""
    scores = torch.full((len(symbols), outputs), 0.1 / (outputs - 1))
    scores[range(len(symbols)), symbols] = 0.9
    return scores.log()


def path_of(starts: list[int], ends: list[int], targets: list[int], frames: int) -> list[int]:
    path = [0] * frames
    for start, end, target in zip(starts, ends, targets, strict=True):
        path[start:end] = [target] * (end - start)
    return path


def test_by_hand() -> None:
    alignment = ctc_align(peaky([0, 1, 1, 0, 2, 0]), torch.tensor([1, 2]))
    assert alignment.starts.tolist() == [1, 4]
    assert alignment.ends.tolist() == [3, 5]
    assert alignment.confidences.tolist() == pytest.approx([0.9, 0.9])
    assert alignment.log_prob == pytest.approx(6 * math.log(0.9))


def test_equal_neighbours_are_apart() -> None:
    alignment = ctc_align(peaky([1, 1, 1]), torch.tensor([1, 1]))
    assert (alignment.starts.tolist(), alignment.ends.tolist()) == ([0, 2], [1, 3])


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 6), st.lists(st.integers(1, 2), max_size=4))
def test_is_the_best_of_all_paths(seed: int, frames: int, targets: list[int]) -> None:
    scores = torch.randn(frames, 3, generator=torch.Generator().manual_seed(seed)).log_softmax(1)
    paths = [
        path
        for path in itertools.product(range(3), repeat=frames)
        if [symbol for symbol, _ in itertools.groupby(path) if symbol] == targets
    ]
    if not paths:
        with pytest.raises(InputError, match="frames"):
            ctc_align(scores, torch.tensor(targets, dtype=torch.long))
        return
    best = max(sum(float(scores[t, symbol]) for t, symbol in enumerate(path)) for path in paths)
    alignment = ctc_align(scores, torch.tensor(targets, dtype=torch.long))
    assert alignment.log_prob == pytest.approx(best, abs=1e-5)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(50, 400), st.floats(0.0, 0.9))
def test_the_path_has_the_score_it_is_given(seed: int, frames: int, density: float) -> None:
    """Over several blocks, and of few labels and of almost as many as frames."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(frames, 5, generator=generator).log_softmax(1)
    targets = torch.unique_consecutive(torch.randint(1, 5, (int(density * frames),), generator=generator))
    alignment = ctc_align(scores, targets)
    starts, ends = alignment.starts.tolist(), alignment.ends.tolist()
    assert all(start < end for start, end in zip(starts, ends, strict=True))
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    path = path_of(starts, ends, targets.tolist(), frames)
    assert float(scores[range(frames), path].double().sum()) == pytest.approx(alignment.log_prob, rel=1e-5)


def test_a_long_recording_is_found_again() -> None:
    """20,000 frames: many blocks; the true path is visible and must come back exactly."""
    rng = np.random.default_rng(0)
    symbols: list[int] = []
    targets: list[int] = []
    while len(symbols) < 20_000:
        target = int(rng.integers(1, 29))
        targets.append(target)
        symbols += [target] * int(rng.integers(1, 3)) + [0] * int(rng.integers(1, 5))
    alignment = ctc_align(peaky(symbols, 29), torch.tensor(targets))
    assert path_of(alignment.starts.tolist(), alignment.ends.tolist(), targets, len(symbols)) == symbols


def test_a_star_takes_what_is_not_transcribed() -> None:
    alignment = ctc_align(peaky([1, 0, 3, 3, 0, 3, 0, 2, 0]), torch.tensor([1, STAR, 2]))
    assert alignment.starts.tolist()[0] == 0
    assert alignment.starts.tolist()[2] == 7
    assert alignment.starts[1] <= 2
    assert alignment.ends[1] >= 6
    assert alignment.confidences[1].isnan()
    assert alignment.confidences[[0, 2]].tolist() == pytest.approx([0.9, 0.9])


def test_a_star_leaves_transcribed_words_alone() -> None:
    alignment = ctc_align(peaky([0, 1, 1, 0, 2, 2, 0]), torch.tensor([STAR, 1, 2, STAR]))
    assert alignment.starts.tolist()[1:3] == [1, 4]
    assert alignment.confidences[1:3].tolist() == pytest.approx([0.9, 0.9])


def test_empty_targets_and_no_frames() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert ctc_align(peaky([0, 0]), none).log_prob == pytest.approx(2 * math.log(0.9))
    assert ctc_align(torch.zeros(0, 4), none).log_prob == 0
    with pytest.raises(InputError, match="1 tokens need at least 1 frames, the recording has 0"):
        ctc_align(torch.zeros(0, 4), torch.tensor([1]))


def test_impossible_tokens_and_half_precision() -> None:
    scores = peaky([0, 1, 0, 2])
    masked = scores.clone()
    masked[:, 2] = -torch.inf
    with pytest.raises(InputError, match="probability 0"):
        ctc_align(masked, torch.tensor([1, 2]))
    assert ctc_align(scores.bfloat16(), torch.tensor([1, 2])).starts.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("scores", "targets", "message"),
    [
        (torch.zeros(1, 2, 3), torch.tensor([1]), "T, V"),
        (torch.zeros(2, 3), torch.tensor([3]), "0..2"),
        (torch.zeros(2, 3), torch.tensor([0]), "without the blank"),
        (torch.full((2, 3), torch.nan), torch.tensor([1]), "NaN"),
    ],
)
def test_bad_arguments_are_refused(scores: Tensor, targets: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ctc_align(scores, targets)


def test_frames_are_labelled_with_the_token_they_speak() -> None:
    """The second utterance is shorter; the third's targets do not fit."""
    rows = [peaky([0, 1, 1, 0, 2, 0]), peaky([3, 0, 0, 0, 0, 0]), peaky([1, 1, 0, 0, 0, 0])]
    targets = torch.tensor([[1, 2, 0], [3, 0, 0], [1, 1, 1]])
    labels = frame_labels(torch.stack(rows), torch.tensor([6, 3, 4]), targets, torch.tensor([2, 1, 3]))
    assert labels.tolist() == [[0, 1, 1, 0, 2, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
