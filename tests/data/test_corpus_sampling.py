"""What an epoch takes: hours and weights are kept, nothing is forgotten, minibatches hold so much audio."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2.data.corpus_sampling import SamplingConfig, cut_into_minibatches, draw
from ds2.data.sampler import SortaGradSampler, Sources

RNG = np.random.default_rng(0)
DURATIONS = RNG.uniform(1, 10, 1000)
SIZES = [900, 100]


def seconds_of(drawn: np.ndarray) -> list[float]:
    return [DURATIONS[drawn[drawn < 900]].sum(), DURATIONS[drawn[drawn >= 900]].sum()]


def test_default_takes_everything_once() -> None:
    assert draw(DURATIONS, SIZES, SamplingConfig(), 1, 5).tolist() == list(range(1000))


def test_weights_are_shares_of_the_hours() -> None:
    for epoch in range(3):
        large, small = seconds_of(draw(DURATIONS, SIZES, SamplingConfig((1.0, 3.0), epoch_hours=1.0), 1, epoch))
        assert large == pytest.approx(900, abs=12)
        assert small == pytest.approx(2700, abs=12)


def test_hours_without_weights_are_taken_as_the_corpora_have_them() -> None:
    large, small = seconds_of(draw(DURATIONS, SIZES, SamplingConfig(epoch_hours=0.5), 1, 0))
    assert large + small == pytest.approx(1800, abs=20)
    assert large / small == pytest.approx(DURATIONS[:900].sum() / DURATIONS[900:].sum(), rel=0.1)


def test_over_the_epochs_every_utterance_is_heard_equally_often() -> None:
    config = SamplingConfig((1.0, 1.0), epoch_hours=0.7)
    heard = np.bincount(
        np.concatenate([draw(DURATIONS, SIZES, config, 1, epoch) for epoch in range(20)]), minlength=1000
    )
    for part in (heard[:900], heard[900:]):
        assert part.max() - part.min() <= 1
    assert heard[:900].min() >= 1


def batches_of(sampler: SortaGradSampler, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in sampler.batches(epoch)]


def test_order_is_a_function_of_seed_and_epoch() -> None:
    config = SamplingConfig((1.0, 1.0), 0.2, batch_seconds=60)
    first, twin = (SortaGradSampler(DURATIONS, 16, 3, sampling=config, sources=Sources(SIZES)) for _ in range(2))
    assert [batches_of(first, epoch) for epoch in (1, 2)] == [batches_of(twin, epoch) for epoch in (1, 2)]
    assert batches_of(first, 1) != batches_of(first, 2)
    first.begin(2, start=4)
    assert [index for _, index in next(iter(first))] == batches_of(twin, 2)[4]
    assert len(first) == len(batches_of(twin, 2))


@given(st.lists(st.floats(0.1, 30), min_size=1, max_size=60), st.integers(1, 8), st.floats(1, 100))
def test_minibatches_hold_so_many_utterances_and_so_much_padded_audio(
    durations: list[float], size: int, seconds: float
) -> None:
    values = np.array(durations)
    order = np.argsort(values)
    batches = [batch.tolist() for batch in cut_into_minibatches(order, values, size, seconds)]
    assert [index for batch in batches for index in batch] == order.tolist()
    for batch in batches:
        assert len(batch) == 1 or (len(batch) <= size and len(batch) * values[batch].max() <= seconds)


def test_few_shards_are_open_at_a_time_and_all_are_read() -> None:
    shards = np.arange(1000) % 20
    sampler = SortaGradSampler(
        DURATIONS, 10, 1, sampling=SamplingConfig(open_shards=4), sources=Sources(shards=shards.tolist())
    )
    batches = batches_of(sampler, 1)
    assert sorted(index for batch in batches for index in batch) == list(range(1000))
    windows = [{shards[index] for batch in batches[at : at + 20] for index in batch} for at in range(0, 100, 20)]
    assert [len(window) for window in windows] == [4] * 5
    assert set().union(*windows) == set(range(20))
    assert batches != batches_of(sampler, 2)


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"epoch_hours": -1.0}, {"weights": (0.0, 0.0)}, {"weights": (-1.0, 2.0)}, {"batch_seconds": -1.0}):
        with pytest.raises(ValueError, match="must be 0 or more"):
            SamplingConfig(**wrong)
