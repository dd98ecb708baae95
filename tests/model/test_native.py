"""The model on NumPy computes what the model on torch computes."""

import dataclasses

import numpy as np
import pytest
import torch
from helpers.architectures import (
    GATED,
    LIVE,
    SMALL,
    bn_lstm_of_sequences,
    briefly_trained_bn_lstm,
    clipped_rnn,
    configs,
    in_chunks,
    joined,
    live_configs,
    state,
    trained,
    whole_utterances,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model.acoustic import AcousticModel
from ds2.model.bundle_weights import LayerWeights
from ds2.model.cells import Cell
from ds2.model.config import FrontendConfig, ModelConfig
from ds2.model.native import recurrent
from ds2.model.native.few_rows import FEW
from ds2.model.native.layers import NativeConvolution
from ds2.model.native.network import NativeSlots, Network
from ds2.model.native.slots import SlotBatch, SlotStores
from ds2.model.normalization import STEPS
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


@settings(max_examples=100)
@given(config=configs, seed=st.integers(0, 2**16), lengths=st.lists(st.integers(1, 1200), min_size=1, max_size=3))
def test_every_architecture_gives_what_torch_gives(config: ModelConfig, seed: int, lengths: list[int]) -> None:
    assert_same(trained(config, seed), lengths)


def heard(model: AcousticModel, samples: np.ndarray, frames: list[int], q: int) -> list[np.ndarray]:
    """(B, N) samples of streams of so many front-end frames, in chunks of q frames -> (T, V + P + Q) of each.

    They lie in slots from last to first, which other streams have used.
    """
    slots, numbers = NativeSlots(native(model), len(samples), phones=True), np.arange(len(samples))[::-1]
    padded, starts = in_chunks(model.config, samples, frames, q)
    hop, size = slots.steps.hop, slots.steps.samples(q)
    slots.advance(numbers, numbers * 0, numbers * 0 + 1000, padded[:, :size] + 1)
    rows = [
        slots.advance(numbers, np.full_like(numbers, at), np.array(frames), padded[:, at * hop : at * hop + size])
        for at in starts
    ]
    return joined(model.config, rows, frames)


@settings(max_examples=100)
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
    samples, expected = whole_utterances(model, frames)
    found = heard(model, samples, frames, config.step_frames(strides * config.stride))
    for row, other in zip(found, expected, strict=True):
        assert np.allclose(row, other, atol=1e-4)


@settings(max_examples=50)
@given(config=configs, seed=st.integers(0, 2**16), length=st.integers(1, 1200), at_once=st.integers(1, 9))
def test_a_part_of_an_utterance_at_once_gives_what_all_of_it_gives(
    config: ModelConfig, seed: int, length: int, at_once: int
) -> None:
    network, other = (native(trained(config, seed)) for _ in range(2))
    for layer in other.convolutions:
        layer.at_once = at_once
    samples = 0.1 * np.random.default_rng(seed).standard_normal(length).astype(np.float32)
    assert np.allclose(other.log_probs(samples), network.log_probs(samples), atol=1e-5)


def test_a_convolution_over_time_gives_the_same_frame_by_frame_as_place_by_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = next(each for each in native(trained(GATED)).convolutions if isinstance(each, NativeConvolution))
    config = dataclasses.replace(layer.config, kernel=(layer.config.kernel[0], 3), stride=(layer.config.stride[0], 1))
    weights = {
        "kernel.weight": torch.randn(config.channels, layer.inputs, layer.height, 3),
        "kernel.bias": torch.randn(config.channels),
    }
    layer = NativeConvolution(layer.inputs, layer.bins, config, LayerWeights(weights), batch_norm=False)
    x = np.random.default_rng(0).standard_normal((2, 50, layer.bins * layer.inputs)).astype(np.float32)
    by_frame = layer(x)
    monkeypatch.setattr("ds2.model.native.layers.MANY", 1000)
    by_place = layer(x)
    assert by_frame.shape == by_place.shape == (2, 48, by_place.shape[2])
    assert by_place.max() > 0
    assert np.allclose(by_frame, by_place, atol=1e-4)


def test_gates_and_biphones() -> None:
    assert_same(trained(GATED), [1000, 600, 40])


@pytest.mark.parametrize("strides", [1, 2, 3, 7])
def test_gates_and_biphones_chunk_by_chunk(strides: int) -> None:
    model, frames = trained(GATED), [60, 37, 4, 1]
    samples, expected = whole_utterances(model, frames)
    found = heard(model, samples, frames, GATED.step_frames(strides * GATED.stride))
    for row, other in zip(found, expected, strict=True):
        assert row.shape == other.shape
        assert np.allclose(row, other, atol=1e-4)


def test_streams_with_gates_join_when_they_like() -> None:
    """The second one begins when the first has heard three chunks."""
    model = trained(GATED)
    samples, expected = whole_utterances(model, [60, 60])
    slots, q = NativeSlots(native(model), 3, phones=True), GATED.stride
    padded, starts = in_chunks(GATED, samples, [60, 60], q)
    size, rows = slots.steps.samples(q), ([], [])
    for at in [*starts, *(starts[-1] + q * number for number in (1, 2, 3))]:
        live = [(stream, at - late) for stream, late in ((0, 0), (1, 3 * q)) if 0 <= at - late <= starts[-1]]
        streams, positions = map(np.array, zip(*live, strict=True))
        chunk = np.stack([padded[stream, 10 * start : 10 * start + size] for stream, start in live])
        scores = slots.advance(streams + 1, positions, np.full(len(live), 60), chunk)
        for stream, row in zip(streams, scores, strict=True):
            rows[stream].append(row[None])
    for row, other in zip(rows, expected, strict=True):
        assert np.allclose(joined(GATED, row, [60])[0], other, atol=1e-4)


def test_states_of_a_simple_rnn_are_clipped() -> None:
    assert_same(clipped_rnn(), [1000, 600])


@pytest.mark.parametrize("level", [0.0, 1e-6])
@pytest.mark.parametrize("power", ["utterance", "adaptive"])
def test_silence_is_not_normalised(power: str, level: float) -> None:
    assert_same(trained(dataclasses.replace(SMALL, frontend=FrontendConfig(1000, power=power))), [500], level)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_many_streams_with_a_large_matrix_give_what_few_give(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are all frames in a kernel, many are frame by frame; a stream that begins or ends within a chunk included."""
    config = dataclasses.replace(SMALL, cell=cell, bidirectional=False)
    direction = native(trained(config, 0)).recurrent[0].forwards
    generator = np.random.default_rng(0)
    x = generator.standard_normal((FEW + 1, 7, direction.weight.shape[1])).astype(np.float32)
    valid = generator.integers(0, 2, (FEW + 1, 7, 1)).astype(np.float32)
    start = tuple(generator.standard_normal((FEW + 1, width)).astype(np.float32) for width in direction.widths)
    few = direction(x, valid, start)
    monkeypatch.setattr(recurrent, "CACHED", 0)
    many = direction(x, valid, start)
    assert np.allclose(few[0], many[0], atol=1e-5)
    assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(few[1], many[1], strict=True))


def test_frames_beyond_the_statistics_of_a_bn_lstm_use_the_last() -> None:
    assert_same(briefly_trained_bn_lstm(), [10 * (2 * STEPS + 20)])


def test_a_bn_lstm_with_statistics_of_whole_sequences() -> None:
    """Its file is that of a bn-lstm with equal statistics in all steps."""
    assert_same(bn_lstm_of_sequences(), [4000, 900])


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


@settings(max_examples=300)
@given(
    streams=st.lists(st.tuples(st.integers(0, 9), st.integers(-12, 40)), min_size=1, max_size=3),
    stride=st.sampled_from([1, 2, 3]),
    delay=st.integers(0, 5),
)
def test_frames_outside_their_stream_become_nothing(streams: list[tuple[int, int]], stride: int, delay: int) -> None:
    """A chunk of 12 frames of each stream, by hand."""
    positions = np.array([12 * chunk for chunk, _ in streams])
    lengths = np.maximum(positions + [left for _, left in streams], 1)
    x = np.ones((len(streams), 12 // stride, 2), np.float32)
    SlotBatch(SlotStores(3), np.arange(len(streams)), positions, lengths).clear_outside(x, stride, delay)
    for row, position, length in zip(x, positions, lengths, strict=True):
        numbers = [int(position) // stride - delay + frame for frame in range(12 // stride)]
        assert row[:, 0].tolist() == [float(0 <= number < -(-int(length) // stride)) for number in numbers]
        assert (row[:, 0] == row[:, 1]).all()
