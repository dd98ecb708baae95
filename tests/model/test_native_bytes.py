"""Convolutions and time-delay layers in 8 bits against float32, alone, in a network, and live, on processors that
multiply bytes and on others."""

import dataclasses

import numpy as np
import pytest
from helpers.architectures import GATED, in_chunks, joined, state, trained

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import ConvolutionConfig
from ds2.model.native import network as network_module
from ds2.model.native.byte_convolution import ByteConvolution
from ds2.model.native.byte_time_delay import ByteTimeDelay
from ds2.model.native.int8_time_delay import Int8TimeDelay
from ds2.model.native.layers import NativeConvolution, NativeTimeDelay, clip_and_add
from ds2.model.native.network import NativeSlots, Network
from ds2.model.steps import Steps
from ds2.utils import byte_products
from ds2.utils.byte_products import multiplies_bytes

CONFIG = dataclasses.replace(
    GATED,
    convolutions=(
        dataclasses.replace(GATED.convolutions[0], channels=4),
        ConvolutionConfig(8, (5, 3), (2, 1)),
        ConvolutionConfig(64, (0, 3), (1, 1), gate=3),
        ConvolutionConfig(64, (1, 3), (1, 1), bottleneck=32, bypass=0.66),
        ConvolutionConfig(64, (1, 5), (1, 1), lookahead=1, bottleneck=32, bypass=0.66, gate=2),
    ),
)


LAYERS = {  # of `multiplies_bytes`: the kinds of those above the first
    True: (ByteConvolution, ByteConvolution, ByteTimeDelay, ByteTimeDelay),
    False: (NativeConvolution, NativeConvolution, Int8TimeDelay, Int8TimeDelay),
}


@pytest.fixture(autouse=True, params=[True, False], ids=["bytes", "no bytes"])
def has_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the processor multiplies bytes; small layers take part, too."""
    if request.param and not multiplies_bytes():
        pytest.skip("needs a processor with AVX-512 VNNI")
    for module in (byte_products, network_module):
        monkeypatch.setattr(module, "multiplies_bytes", lambda: request.param)
    monkeypatch.setattr(byte_products, "LEAST_WEIGHTS", 1)
    return bool(request.param)


def networks() -> tuple[Network, Network]:
    """In float32 and in bytes, of the same weights."""
    model = trained(CONFIG, 3)
    weights, outputs = LayerWeights(state(model)), len(model.output.weight)
    return Network(CONFIG, outputs, weights), Network(CONFIG, outputs, weights, in_bytes=True)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_layer_is_near_float32(batch: int, has_bytes: bool) -> None:
    plain, in_bytes = networks()
    assert isinstance(in_bytes.convolutions[0], NativeConvolution)  # features may be below 0
    for number, kind in enumerate(LAYERS[has_bytes], 1):
        layer, other = plain.convolutions[number], in_bytes.convolutions[number]
        assert type(other) is kind
        width = layer.bins * layer.inputs if isinstance(layer, NativeConvolution) else 64
        x = np.random.default_rng(number).random((batch, 40, width), np.float32)
        expected, found = layer(x), other(x)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
        assert found.min() >= 0
        if isinstance(layer, NativeTimeDelay):
            whole = layer.whole(x[:1])
            assert np.abs(other.whole(x[:1]) - whole).max() < 0.02 * whole.max()


def test_a_network_is_near_float32() -> None:
    plain, in_bytes = networks()
    samples = 0.1 * np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    expected, found = plain.log_probs(samples), in_bytes.log_probs(samples)
    assert not np.array_equal(found, expected)
    assert np.abs(np.exp(found) - np.exp(expected)).max() < 0.1


@pytest.mark.parametrize("strides", [1, 3])
def test_live_is_offline(strides: int) -> None:
    """Whatever lies in the same batch: a frame is rounded by itself. Features differ by 1e-6, and so do roundings."""
    network, frames = networks()[1], [60, 37, 4]
    steps = Steps.of(CONFIG)
    draw = np.random.default_rng(1)
    samples = (0.1 * draw.standard_normal((3, steps.samples(60)))).astype(np.float32)
    slots, q = NativeSlots(network, 3, phones=True), CONFIG.step_frames(strides * CONFIG.stride)
    padded, starts = in_chunks(CONFIG, samples, frames, q)
    rows = [
        slots.advance(
            np.arange(3),
            np.full(3, at),
            np.array(frames),
            padded[:, at * steps.hop : at * steps.hop + steps.samples(q)],
        )
        for at in starts
    ]
    for row, own, length in zip(joined(CONFIG, rows, frames), samples, frames, strict=True):
        assert np.abs(np.exp(row) - np.exp(network.log_probs(own[: steps.samples(length)]))).max() < 0.01


def test_the_end_of_a_layer() -> None:
    x = np.array([[[-1, 30], [2, 3]]], np.float32)
    result = np.empty((1, 1, 2), np.float32)
    clip_and_add(x, np.array([0, -1], np.float32), np.array([[[10, 20]]], np.float32), 0, np.float32(0.5), result)
    assert result.tolist() == [[[5, 30]]]
