"""The model on NumPy computes what the model on torch computes."""

import dataclasses

import numpy as np
import pytest
import torch
from helpers.architectures import LIVE, SMALL, configs, live_configs, state, trained
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model.acoustic import AcousticModel
from ds2.model.config import FrontendConfig, ModelConfig
from ds2.model.layer_weights import LayerWeights
from ds2.model.native.network import NativeSlots, Network
from ds2.model.normalization import STEPS, SequenceBatchNorm, StepBatchNorm
from ds2.utils.errors import InputError


def native(model: AcousticModel) -> Network:
    return Network(model.config, len(model.output.weight), LayerWeights(state(model)))


def assert_same(model: AcousticModel, lengths: list[int], level: float = 0.1) -> None:
    """Of a batch of noise, the longest utterance in it padded."""
    samples = level * torch.randn(len(lengths), max(lengths) + 30)
    with torch.no_grad():
        expected, frames = model.all_log_probs(samples, torch.tensor(lengths))
    network = native(model)
    for row, length, other, count in zip(samples.numpy(), lengths, expected.numpy(), frames.tolist(), strict=True):
        found = network.log_probs(row[:length])
        assert found.shape == (count, other.shape[1])
        assert np.allclose(found, other[:count], atol=1e-4)


@settings(max_examples=100, deadline=None)
@given(config=configs, seed=st.integers(0, 2**16), lengths=st.lists(st.integers(1, 1200), min_size=1, max_size=3))
def test_every_architecture_gives_what_torch_gives(config: ModelConfig, seed: int, lengths: list[int]) -> None:
    assert_same(trained(config, seed), lengths)


def heard(model: AcousticModel, samples: np.ndarray, frames: list[int], q: int) -> list[np.ndarray]:
    """(B, N) samples of streams of so many front-end frames, in chunks of q frames -> (T, V + P) of each.

    They lie in slots from last to first, which other streams have used.
    """
    slots = NativeSlots(native(model), len(samples), phones=True)
    config, steps, numbers = model.config, slots.steps, np.arange(len(samples))[::-1]
    count = -(-(max(frames) + (config.delay + 1) * config.stride) // q)
    padded = np.zeros((len(samples), count * q * steps.hop + steps.overlap), np.float32)
    for row, length, source in zip(padded, frames, samples, strict=True):
        row[: length * steps.hop + steps.overlap] = source[: length * steps.hop + steps.overlap]
    slots.advance(numbers, numbers * 0, numbers * 0 + 1000, padded[:, : steps.samples(q)] + 1)
    rows = [
        slots.advance(
            numbers, np.full_like(numbers, at), np.array(frames), padded[:, at * steps.hop :][:, : steps.samples(q)]
        )
        for at in range(0, count * q, q)
    ]
    every = np.concatenate(rows, axis=1)[:, config.delay :]
    return [row[: -(-length // config.stride)] for row, length in zip(every, frames, strict=True)]


@settings(max_examples=100, deadline=None)
@given(
    config=live_configs,
    seed=st.integers(0, 2**16),
    frames=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    strides=st.integers(1, 4),
)
def test_chunk_by_chunk_gives_what_the_whole_utterance_gives(
    config: ModelConfig, seed: int, frames: list[int], strides: int
) -> None:
    model = trained(config, seed)
    hop, window = config.frontend.hop_samples, config.frontend.window_samples
    lengths = [(length - 1) * hop + window for length in frames]
    samples = 0.1 * torch.randn(len(frames), max(lengths))
    with torch.no_grad():
        expected, counts = model.all_log_probs(samples, torch.tensor(lengths))
    found = heard(model, samples.numpy(), frames, config.step_frames(strides * config.stride))
    for row, other, count in zip(found, expected, counts.tolist(), strict=True):
        assert np.allclose(row, other[:count], atol=1e-4)


def test_states_of_a_simple_rnn_are_clipped() -> None:
    model = trained(dataclasses.replace(SMALL, cell="rnn", recurrent_layers=1))
    with torch.no_grad():
        for direction in (model.recurrent[0].forwards, model.recurrent[0].backwards):
            direction.norm.beta.fill_(18.0)
            direction.recurrent_weight.fill_(0.1)  # without the clip the states grow to 30
    assert_same(model, [1000, 600])


@pytest.mark.parametrize("level", [0.0, 1e-6])
@pytest.mark.parametrize("power", ["utterance", "adaptive"])
def test_silence_is_not_normalised(power: str, level: float) -> None:
    assert_same(trained(dataclasses.replace(SMALL, frontend=FrontendConfig(1000, power=power))), [500], level)


def test_frames_beyond_the_statistics_of_a_bn_lstm_use_the_last() -> None:
    """The last that training has reached: later ones are as they were at first."""
    model = trained(dataclasses.replace(SMALL, cell="bn-lstm", bidirectional=False))
    for norm in model.modules():
        if isinstance(norm, StepBatchNorm):
            norm.variances[:20] = 0.04
            norm.means[20:], norm.variances[20:] = 0, 1
    assert_same(model, [10 * (2 * STEPS + 20)])


def test_a_bn_lstm_with_statistics_of_whole_sequences() -> None:
    """Its file is that of a bn-lstm with equal statistics in all steps."""
    model = trained(dataclasses.replace(SMALL, cell="bn-lstm-e", bidirectional=True))
    for norm in model.modules():
        if isinstance(norm, SequenceBatchNorm):
            norm.train().over_sequences(torch.randn(3, 9, len(norm.gamma)), torch.ones(3, 9, dtype=torch.bool))
    model.eval()
    assert_same(model, [4000, 900])


@pytest.mark.parametrize("shape", [(), (1,), (5, 3), (6, 4)])
def test_weights_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    weights = state(trained(SMALL))
    for name in ("output.weight", "convolutions.0.norm.gamma", "recurrent.1.forwards.recurrent_weight"):
        with pytest.raises(InputError, match=rf"{name} is .*, not"):
            Network(SMALL, 5, LayerWeights(weights | {name: np.zeros(shape)}))
        with pytest.raises(InputError, match=f"{name} is missing"):
            Network(SMALL, 5, LayerWeights({key: value for key, value in weights.items() if key != name}))


def test_a_step_takes_the_chunks_of_its_model() -> None:
    config = dataclasses.replace(LIVE, bidirectional=True, chunk=6, lookahead=0)
    slots = NativeSlots(native(trained(config)), 1, phones=False)
    place, frames = np.zeros(1, np.int64), slots.steps.whole_frames - config.stride
    samples = np.zeros((1, slots.steps.samples(frames)), np.float32)
    with pytest.raises(ValueError, match="the model takes chunks of"):
        slots.advance(place, place, np.array([1 << 40]), samples)
    assert slots.advance(place, place, np.array([1]), samples).shape == (1, frames // config.stride, 5)
