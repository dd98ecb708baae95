"""The table of a model is that of the model."""

import dataclasses

import pytest
import torch

from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.summary import latency, summarize


def test_costs_by_hand() -> None:
    config = ModelConfig(
        FrontendConfig(8000),
        (ConvolutionConfig(4, (11, 5), (2, 2)),),
        cell="lstm",
        recurrent_layers=1,
        hidden=10,
        bidirectional=False,
        lookahead=3,
        fully_connected=7,
        random_walk=2,
    )
    costs = {layer.name: layer.operations for layer in summarize(config, 6)}
    assert costs["convolutions.0"] == pytest.approx(50 * 2 * 11 * 5 * 4 * 41)
    assert costs["recurrent.0"] == pytest.approx(50 * 2 * 4 * 10 * (4 * 41 + 10))
    assert costs["lookahead"] == pytest.approx(50 * 2 * 10 * 4)
    assert costs["fully_connected"] == pytest.approx(50 * 2 * 10 * 7)
    assert costs["output"] == pytest.approx(50 * 2 * 7 * 6)
    assert costs["random_walk"] == pytest.approx(50 * 2 * 6 * 5)


GATED = ModelConfig(
    FrontendConfig(power="adaptive", mel_bins=40),
    (
        ConvolutionConfig(48, (0, 3), (1, 3), gate=8),
        ConvolutionConfig(48, (1, 5), (1, 1), bottleneck=16, bypass=0.66),
        ConvolutionConfig(48, (1, 5), (1, 1), lookahead=1, bottleneck=16, bypass=0.66, gate=12),
    ),
    recurrent_layers=0,
    bidirectional=False,
    phones=11,
    biphones=6,
)


@pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(
            ModelConfig.preset("ds2-tiny"), bidirectional=False, frontend=FrontendConfig(power="adaptive"), lookahead=4
        ),
        GATED,
    ],
    ids=["recurrent", "gates"],
)
def test_operations_are_those_that_torch_counts(config: ModelConfig) -> None:
    """All matrix products and convolutions of a second of audio, counted by torch itself; and all parameters."""
    from torch.utils.flop_counter import FlopCounterMode

    acoustic = AcousticModel(config, 29).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        acoustic.network(torch.randn(1, config.frontend.bins, 1000), torch.tensor([1000]))
    counted = counter.get_total_flops() / 10
    shown = {layer.name: layer for layer in summarize(config, 29)}
    assert sum(layer.parameters for layer in shown.values()) == sum(map(torch.numel, acoustic.parameters()))
    del shown["frontend"]
    assert counted == pytest.approx(sum(layer.operations for layer in shown.values()), rel=0.02)


def test_from_the_first_gate_on_layers_hear_all_that_was() -> None:
    layers = [(layer.name, layer.shape, layer.context) for layer in summarize(GATED, 29)]
    assert layers == [
        ("frontend", "40", "0.000 before, 0.020 after"),
        ("convolutions.0", "48 x 1", "0.010 before, 0.030 after"),
        ("gates.0", "48 x 1", "all before, 0.030 after"),
        ("convolutions.1", "48 x 1", "all before, 0.090 after"),
        ("convolutions.2", "48 x 1", "all before, 0.120 after"),
        ("gates.2", "48 x 1", "all before, 0.120 after"),
        ("output", "29", "all before, 0.120 after"),
        ("phone_output", "11", "all before, 0.120 after"),
        ("biphones", "100", "all before, 0.120 after"),
    ]


def test_costs_of_gates_and_biphones_by_hand() -> None:
    costs = {layer.name: (layer.parameters, layer.operations) for layer in summarize(GATED, 29)}
    assert costs["gates.2"] == (48 + (48 + 1) * 12 + (12 + 1) * 48, pytest.approx(100 / 3 * 2 * 2 * 48 * 12))
    assert costs["biphones"] == (48 * 6 + (6 + 1) * 100, pytest.approx(100 / 3 * 2 * 6 * (48 + 100)))


def test_latency_is_known_for_models_that_stream_alone() -> None:
    assert latency(ModelConfig.preset("ds2-deploy")) == pytest.approx(0.55)
    assert latency(ModelConfig.preset("ds2-small")) is None


def test_latency_and_costs_count_samples_not_milliseconds() -> None:
    """At 11,025 Hz: a window of 220 samples, and behind it 5 + 3 frames of 110."""
    config = ModelConfig(
        FrontendConfig(11025, power="adaptive"),
        (ConvolutionConfig(4, (11, 11), (2, 1)),),
        bidirectional=False,
        lookahead=3,
    )
    assert latency(config) == pytest.approx((220 + 8 * 110) / 11025, rel=1e-9)
    assert summarize(config, 5)[1].operations == pytest.approx(11025 / 110 * 2 * 11 * 11 * 4 * 56, rel=1e-9)


@pytest.mark.parametrize("change", [{"bidirectional": False, "lookahead": 3}, {"chunk": 5}], ids=str)
def test_a_frame_hears_as_far_as_the_latency(change: dict) -> None:
    """Sound behind it changes no frame; without the last 10 ms of it, some frame of ten changes."""
    layers = (ConvolutionConfig(4, (11, 7), (2, 2)), ConvolutionConfig(4, (5, 5), (2, 1), lookahead=1))
    config = ModelConfig(FrontendConfig(8000, power="adaptive"), layers, recurrent_layers=2, hidden=12, **change)
    model, samples = AcousticModel(config, 6).eval(), torch.randn(1, 8000)
    model.frontend.set_prior(0.05)

    def row(frame: int, end: int) -> torch.Tensor:
        heard = samples * (torch.arange(8000) < end)
        with torch.no_grad():
            return model(heard, torch.tensor([8000]))[0][0, frame]

    ends = {frame: round((frame * config.frame_seconds + latency(config)) * 8000) for frame in range(10, 20)}
    for frame, end in ends.items():
        assert torch.allclose(row(frame, end), row(frame, 8000), atol=1e-6)
    assert any(not torch.allclose(row(frame, end - 80), row(frame, 8000), atol=1e-6) for frame, end in ends.items())
