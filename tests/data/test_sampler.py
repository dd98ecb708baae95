"""The order of training."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2.data.sampler import JITTER, Curriculum, Share, SortaGradSampler, part_of
from ds2.data.utterance import Utterance

UTTERANCES = [Utterance(Path(f"/{number}.wav"), 1.0 + number % 7, "a") for number in range(500)]
DURATIONS = [3.0, 1.0, 2.0, 5.0, 4.0]


def batches_of(sampler: SortaGradSampler, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in sampler.batches(epoch)]


def test_first_epoch_by_increasing_duration() -> None:
    assert batches_of(SortaGradSampler(DURATIONS, 2, seed=1), 0) == [[1, 2], [0, 4], [3]]


def test_without_sortagrad_the_first_epoch_is_like_the_others() -> None:
    orders = {
        str(batches_of(SortaGradSampler(DURATIONS, 2, seed, Curriculum(sortagrad=False)), 0)) for seed in range(20)
    }
    assert len(orders) > 5


@given(st.lists(st.floats(0.1, 30), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 5))
def test_every_epoch_takes_every_utterance_once(durations: list[float], batch_size: int, epoch: int) -> None:
    sampler = SortaGradSampler(durations, batch_size, seed=3)
    batches = batches_of(sampler, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(durations)))
    assert len(batches) == len(sampler)
    assert max(map(len, batches)) <= batch_size


def test_later_epochs_bucket_like_durations() -> None:
    durations = [1.0 + index / 10 for index in range(200)]
    for batch in batches_of(SortaGradSampler(durations, 10, seed=1), 1):
        inside = [durations[index] for index in batch]
        assert max(inside) * (1 - JITTER) < min(inside) * (1 + JITTER) + 2.5


def test_later_epochs_differ_from_each_other_and_repeat_by_seed() -> None:
    sampler, twin = (SortaGradSampler(list(range(1, 101)), 10, seed=7) for _ in range(2))
    assert batches_of(sampler, 1) != batches_of(sampler, 2)
    assert batches_of(sampler, 1) == batches_of(twin, 1)
    assert batches_of(sampler, 1) != batches_of(SortaGradSampler(list(range(1, 101)), 10, seed=8), 1)


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_resumes_inside_an_epoch(start: int) -> None:
    sampler = SortaGradSampler(DURATIONS, 2, seed=1)
    sampler.begin(4)
    whole = list(sampler)
    sampler.begin(4, start)
    assert list(sampler) == whole[start:]
    assert all(epoch == 4 for batch in whole for epoch, _ in batch)


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 1.0])
def test_a_part_has_its_share_of_the_hours(fraction: float) -> None:
    whole = sum(utterance.duration for utterance in UTTERANCES)
    part = list(part_of(UTTERANCES, fraction))
    assert sum(utterance.duration for utterance in part) == pytest.approx(fraction * whole, abs=7)
    assert part == [utterance for utterance in UTTERANCES if utterance in part]


def test_a_larger_part_holds_the_smaller_ones_and_none_is_empty() -> None:
    parts = [{utterance.audio_path for utterance in part_of(UTTERANCES, share)} for share in (0.05, 0.2, 0.7)]
    assert parts[0] < parts[1] < parts[2]
    assert len(part_of(UTTERANCES, 1e-9)) == 1


def test_a_minibatch_is_dealt_by_hand() -> None:
    """Durations 3 1 2 5 4 to two ranks, the longest first, always to the one with less audio that has room."""
    shares = [Share(rank, 2).of([0, 1, 2, 3, 4], np.array(DURATIONS)) for rank in (0, 1)]
    assert shares == [[[3, 2, 1]], [[4, 0]]]


@given(st.lists(st.floats(0.1, 30), min_size=1, max_size=60), st.integers(1, 4), st.integers(1, 3), st.integers(1, 16))
def test_ranks_and_pieces_share_every_minibatch(
    durations: list[float], ranks: int, microbatches: int, batch_size: int
) -> None:
    """Nothing twice, nothing left out, as many microbatches in every rank, of equal sizes but for rounding."""
    samplers = [
        SortaGradSampler(durations, batch_size, 1, share=Share(rank, ranks, microbatches)) for rank in range(ranks)
    ]
    dealt = []
    for sampler in samplers:
        sampler.begin(1)
        dealt.append([[index for _, index in microbatch] for microbatch in sampler])
        assert len(dealt[-1]) == len(sampler)
    for number, batch in enumerate(batches_of(samplers[0], 1)):
        mine = [
            microbatch for rank in dealt for microbatch in rank[number * microbatches : (number + 1) * microbatches]
        ]
        assert sorted(index for microbatch in mine for index in microbatch) == sorted(batch)
        assert max(map(len, mine)) <= -(-len(batch) // (ranks * microbatches))


def test_ranks_carry_like_amounts_of_audio() -> None:
    durations = list(np.random.default_rng(0).uniform(1.0, 15.0, 400))
    shares = [Share(rank, 4) for rank in range(4)]
    for batch in batches_of(SortaGradSampler(durations, 40, seed=1), 1):
        audio = [sum(durations[index] for index in share.of(batch, np.array(durations))[0]) for share in shares]
        assert max(audio) < 1.03 * min(audio)


def test_a_curriculum_begins_with_the_shortest_quarter() -> None:
    sampler = SortaGradSampler(range(1, 101), 10, seed=1, curriculum=Curriculum(epochs=3))
    heard = [sorted(index for batch in batches_of(sampler, epoch) for index in batch) for epoch in range(5)]
    assert [len(indices) for indices in heard] == [25, 50, 75, 100, 100]
    assert heard[0] == list(range(25))
    assert [sampler.count(epoch) for epoch in range(4)] == [3, 5, 8, 10]
