"""The front end as ds2/model/frontend.py defines it: a convolution with the waves of the Fourier transform."""

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from ds2.export.graph_builder import Graph, integers, scalar, valid_mask
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import POWER_FLOOR, PRIOR_SECONDS, SILENCE, FrontendConfig
from ds2.utils.errors import InputError
from ds2.utils.mel import mel_bands

LONGEST_WINDOW = 2048  # samples: its Fourier transform is a table of 17 MB


class LevelNodes(NamedTuple):
    """(B, 1, T) of each frame, in float64; see `Frontend.level`."""

    squares: str
    sounding: str
    number: str


def frontend(graph: Graph, config: FrontendConfig, layer: LayerWeights, samples: str, lengths: str) -> tuple[str, str]:
    """(B, N), (B,) -> (B, F, T) standardised log-power, 0 beyond each utterance, (B,) frames."""
    window, hop = config.window_samples, config.hop_samples
    samples = graph.op("Mul", samples, valid_mask(graph, lengths, samples, 1))
    missing = graph.op("Sub", integers(window), graph.op("Shape", samples, start=1))  # of the shortest utterance
    padding = graph.op("Concat", integers(0, 0, 0), graph.op("Max", missing, integers(0)), axis=0)
    padded = graph.op("Unsqueeze", graph.op("Pad", samples, padding), integers(1))  # (B, 1, N)
    level = level_of(graph, config, padded) if "adaptive" in (config.power, config.mean) else None
    if config.power == "adaptive":
        assert level is not None
        power, _ = adaptive_power(graph, config, layer, level)
    else:
        power = _utterance_power(graph, samples, lengths)
    after_first = graph.op("Max", graph.op("Sub", lengths, integers(window)), integers(0))
    frames = graph.op("Add", graph.op("Div", after_first, integers(hop)), integers(1))
    features = log_power(graph, config, padded, power)
    valid = graph.op("Unsqueeze", valid_mask(graph, frames, features, 2), integers(1))
    if config.mean == "adaptive":
        assert level is not None
        features, _ = adaptively_centred(graph, config, layer, features, level)
    elif config.mean == "utterance":
        sums = graph.op("ReduceSum", graph.op("Mul", features, valid), integers(2), keepdims=1)
        count = graph.op("Unsqueeze", graph.op("Cast", frames, to=TensorProto.FLOAT), integers(1, 2))
        features = graph.op("Sub", features, graph.op("Sub", graph.op("Div", sums, count), layer["mean"][:, None]))
    return graph.op("Mul", standardised(graph, layer, features), valid), frames


def standardised(graph: Graph, layer: LayerWeights, features: str) -> str:
    """(B, F, T) log-power -> the same by the training set's statistics."""
    features = graph.op("Mul", features, (1 / layer["std"])[:, None])
    return graph.op("Sub", features, (layer["mean"] / layer["std"])[:, None])


def log_power(graph: Graph, config: FrontendConfig, samples: str, power: str) -> str:
    """(B, 1, N) samples, (B, 1, T) or (B, 1, 1) power -> (B, F, T) log-power."""
    waves = graph.op("Conv", samples, _fourier(config), strides=[config.hop_samples])  # (B, 2 bins, T)
    parts = graph.op("Reshape", graph.op("Mul", waves, waves), integers(0, 2, config.linear_bins, -1))
    energy = graph.op("ReduceSum", parts, integers(1), keepdims=0)
    if config.mel_bins:
        bands = mel_bands(config.mel_bins, config.linear_bins, config.sample_rate)
        energy = graph.op("MatMul", np.ascontiguousarray(bands.T), energy)
    power = graph.op("Where", graph.op("Greater", power, scalar(SILENCE**2)), power, scalar(1))
    return graph.op("Log", graph.op("Add", graph.op("Div", energy, power), scalar(POWER_FLOOR)))


def level_of(graph: Graph, config: FrontendConfig, samples: str, before: str = "") -> LevelNodes:
    """(B, 1, N) samples, (B,) float64 sounding frames of the stream before them."""
    window = config.window_samples
    average = np.full((1, 1, window), 1 / window, np.float32)
    squares = graph.op("Conv", graph.op("Mul", samples, samples), average, strides=[config.hop_samples])
    squares = graph.op("Cast", squares, to=TensorProto.DOUBLE)
    sounding = graph.op("Cast", graph.op("Greater", squares, np.array(SILENCE**2)), to=TensorProto.DOUBLE)
    number = graph.op("CumSum", sounding, np.array(2))
    if before:
        number = graph.op("Add", number, graph.op("Unsqueeze", before, integers(1, 2)))
    return LevelNodes(squares, sounding, number)


def adaptive_power(
    graph: Graph, config: FrontendConfig, layer: LayerWeights, level: LevelNodes, past: str = ""
) -> tuple[str, str]:
    """Mean square of the sounding frames up to each one and of the training set's second.

    Args:
        past: (B,) sum of the mean squares of the frames before, in float64.

    Returns:
        (B, 1, T) power; (B, 1, T) sums up to each frame, in float64.
    """
    sums = graph.op("CumSum", level.squares, np.array(2))
    if past:
        sums = graph.op("Add", sums, graph.op("Unsqueeze", past, integers(1, 2)))
    prior = PRIOR_SECONDS / config.hop_seconds
    total = graph.op("Add", sums, np.array(prior * float(layer["prior_power"])))
    mean = graph.op("Div", total, graph.op("Add", level.number, np.array(prior)))
    return graph.op("Cast", mean, to=TensorProto.FLOAT), sums


def adaptively_centred(
    graph: Graph, config: FrontendConfig, layer: LayerWeights, features: str, level: LevelNodes, past: str = ""
) -> tuple[str, str]:
    """(B, F, T) log-power -> the same by the mean of all sounding frames up to each one, mixed with the training set's.

    Args:
        past: (B, F) sum over the sounding frames before, in float64.

    Returns:
        (B, F, T) features; (B, F, T) sums up to each frame, in float64.
    """
    counted = graph.op("Mul", graph.op("Cast", features, to=TensorProto.DOUBLE), level.sounding)
    sums = graph.op("CumSum", counted, np.array(2))
    if past:
        sums = graph.op("Add", sums, graph.op("Unsqueeze", past, integers(2)))
    prior = PRIOR_SECONDS / config.hop_seconds
    total = graph.op("Add", sums, (prior * layer["mean"].astype(np.float64))[:, None])
    mean = graph.op("Div", total, graph.op("Add", level.number, np.array(prior)))
    moved = graph.op("Sub", graph.op("Cast", mean, to=TensorProto.FLOAT), layer["mean"][:, None])
    return graph.op("Sub", features, moved), sums


def _fourier(config: FrontendConfig) -> np.ndarray:
    """(2 bins, 1, window) kernels that multiply by the Hann window of unit energy, and by cosines and sines.

    Raises:
        InputError: the window is too long for a table.
    """
    window, size = config.window_samples, config.fft_samples
    if size > LONGEST_WINDOW:
        raise InputError(f"a window of {window:,} samples cannot be exported: the most is {LONGEST_WINDOW:,}")
    hann = np.hanning(window)
    turns = np.outer(np.arange(config.linear_bins), np.arange(window)) % size * (2 * np.pi / size)
    waves = np.concatenate([np.cos(turns), np.sin(turns)])
    return (waves * hann / np.linalg.norm(hann)).astype(np.float32)[:, None]


def _utterance_power(graph: Graph, samples: str, lengths: str) -> str:
    """(B, N), 0 beyond the (B,) lengths -> (B, 1, 1) mean square."""
    squares = graph.op("ReduceSumSquare", samples, axes=[1], keepdims=0)
    count = graph.op("Cast", graph.op("Max", lengths, integers(1)), to=TensorProto.FLOAT)
    return graph.op("Unsqueeze", graph.op("Div", squares, count), integers(1, 2))
