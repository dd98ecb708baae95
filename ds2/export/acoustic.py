"""The acoustic model as an ONNX graph, layer by layer as ds2/model defines it. B utterances, N samples, T frames."""

from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from ds2.export.graph import Graph, integers, linear, scalar, valid_mask
from ds2.export.options import Weights
from ds2.export.random_walk import random_walk
from ds2.model.acoustic import AcousticModel
from ds2.model.convolution import Convolution
from ds2.model.dense import FullyConnected
from ds2.model.frontend import POWER_FLOOR, PRIOR_SECONDS, SILENCE, Frontend
from ds2.model.lookahead import RowConvolution
from ds2.model.normalization import CLIP
from ds2.model.recurrent import Direction, RecurrentLayer
from ds2.utils.errors import InputError

OPERATORS = {"rnn": "RNN", "gru": "GRU", "lstm": "LSTM"}
GATE_ORDER = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}  # torch: r z n and i f g o; ONNX: z r n and i o f g


@torch.no_grad()
def acoustic_graph(
    model: AcousticModel, weights: Weights, metadata: dict[str, str], lengths_input: bool = True
) -> onnx.ModelProto:
    """A model in eval mode -> its graph: samples (B, N), lengths (B,) -> log_probs (B, T, V) in float32, frames (B,).

    Rows of log_probs beyond an utterance's frames mean nothing. A second output layer, of phones, is left out.

    Args:
        lengths_input: False leaves the input `lengths` out; all utterances then have N samples.

    Raises:
        InputError: a part of the model has no form in ONNX yet.
    """
    check(model)
    graph = Graph(weights)
    lengths = "lengths" if lengths_input else _all_samples(graph)
    x, frames = _frontend(graph, model.frontend, "samples", lengths)
    x = graph.op("Unsqueeze", x, integers(1))
    for convolution in model.convolutions:
        assert isinstance(convolution, Convolution)
        x, frames = _convolution(graph, convolution, x, frames)
    low = graph.op("Reshape", x, integers(0, _inputs(model), -1))  # (B, C * F, T)
    x = graph.op("Transpose", low, perm=[2, 0, 1])  # (T, B, C * F), as the recurrent operators take it
    for layer in model.recurrent:
        assert isinstance(layer, RecurrentLayer)
        x = _recurrent(graph, layer, x, frames)
    if model.lookahead is not None:
        x = _lookahead(graph, model.lookahead, x)
    if model.fully_connected is not None:
        x = _fully_connected(graph, model.fully_connected, x)
    logits = linear(graph, x, model.output.weight, model.output.bias)
    logits = graph.op("Transpose", logits, perm=[1, 0, 2])
    if model.random_walk is not None:
        logits = random_walk(graph, model.random_walk, low, logits, frames)
    log_probs = graph.op("LogSoftmax", logits, axis=2)
    graph.rename(log_probs, "log_probs")
    graph.rename(frames, "frames")
    inputs = [_value("samples", TensorProto.FLOAT, "B", "N"), _value("lengths", TensorProto.INT64, "B")]
    outputs = [
        _value("log_probs", TensorProto.FLOAT, "B", "T", len(model.output.weight)),
        _value("frames", TensorProto.INT64, "B"),
    ]
    return graph.model(inputs if lengths_input else inputs[:1], outputs, metadata)


def check(model: AcousticModel) -> None:
    """Refuses what has no form in ONNX yet.

    Raises:
        InputError: naming the part.
    """
    if model.config.cell not in OPERATORS:
        raise InputError(f"recurrent layers of cell {model.config.cell} cannot be exported; {', '.join(OPERATORS)} can")


def _value(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _inputs(model: AcousticModel) -> int:
    """C * F: channels times bins of the last convolution."""
    first = model.recurrent[0]
    assert isinstance(first, RecurrentLayer)
    return first.forwards.input_weight.shape[1]


def _all_samples(graph: Graph) -> str:
    """(B,) lengths: N of every utterance."""
    return graph.op("Expand", graph.op("Shape", "samples", start=1), graph.op("Shape", "samples", end=1))


def _frontend(graph: Graph, frontend: Frontend, samples: str, lengths: str) -> tuple[str, str]:
    """(B, N), (B,) -> (B, F, T) standardised log-power, 0 beyond each utterance, (B,) frames."""
    window, hop = frontend.config.window_samples, frontend.config.hop_samples
    samples = graph.op("Mul", samples, valid_mask(graph, lengths, samples, 1))
    missing = graph.op("Sub", integers(window), graph.op("Shape", samples, start=1))  # of the shortest utterance
    padding = graph.op("Concat", integers(0, 0, 0), graph.op("Max", missing, integers(0)), axis=0)
    padded = graph.op("Unsqueeze", graph.op("Pad", samples, padding), integers(1))  # (B, 1, N)

    waves = graph.op("Conv", padded, _fourier(window), strides=[hop])  # (B, 2 F, T): real parts, imaginary parts
    parts = graph.op("Reshape", graph.op("Mul", waves, waves), integers(0, 2, frontend.config.bins, -1))
    energy = graph.op("ReduceSum", parts, integers(1), keepdims=0)
    power = (
        _adaptive_power(graph, frontend, padded)
        if frontend.config.power == "adaptive"
        else _utterance_power(graph, samples, lengths)
    )
    power = graph.op("Where", graph.op("Greater", power, scalar(SILENCE**2)), power, scalar(1))
    log_power = graph.op("Log", graph.op("Add", graph.op("Div", energy, power), scalar(POWER_FLOOR)))

    features = graph.op("Mul", log_power, frontend.std.reciprocal().unsqueeze(1))
    features = graph.op("Sub", features, (frontend.mean / frontend.std).unsqueeze(1))
    after_first = graph.op("Max", graph.op("Sub", lengths, integers(window)), integers(0))
    frames = graph.op("Add", graph.op("Div", after_first, integers(hop)), integers(1))
    valid = graph.op("Unsqueeze", valid_mask(graph, frames, features, 2), integers(1))
    return graph.op("Mul", features, valid), frames


def _fourier(window: int) -> Tensor:
    """(2 F, 1, window) kernels that multiply by the Hann window of unit energy, and by cosines and sines."""
    hann = torch.hann_window(window, periodic=False, dtype=torch.float64)
    turns = torch.outer(torch.arange(window // 2 + 1), torch.arange(window)) % window * (2 * torch.pi / window)
    waves = torch.cat([turns.double().cos(), turns.double().sin()])
    return (waves * hann / hann.norm()).float().unsqueeze(1)


def _utterance_power(graph: Graph, samples: str, lengths: str) -> str:
    """(B, N), 0 beyond the (B,) lengths -> (B, 1, 1) mean square."""
    squares = graph.op("ReduceSumSquare", samples, axes=[1], keepdims=0)
    count = graph.op("Cast", graph.op("Max", lengths, integers(1)), to=TensorProto.FLOAT)
    return graph.op("Unsqueeze", graph.op("Div", squares, count), integers(1, 2))


def _adaptive_power(graph: Graph, frontend: Frontend, samples: str) -> str:
    """(B, 1, N) -> (B, 1, T) mean square of the frames up to each one and of the training set's second."""
    window, hop = frontend.config.window_samples, frontend.config.hop_samples
    average = torch.full((1, 1, window), 1 / window)
    power = graph.op("Conv", graph.op("Mul", samples, samples), average, strides=[hop])
    sums = graph.op("CumSum", graph.op("Cast", power, to=TensorProto.DOUBLE), np.array(2))
    ones = graph.op("ConstantOfShape", graph.op("Shape", power), value=numpy_helper.from_array(np.ones(1)))
    number = graph.op("CumSum", ones, np.array(2))
    prior = PRIOR_SECONDS / frontend.config.hop_seconds
    total = graph.op("Add", sums, np.array(prior * frontend.prior_power.double().item()))
    mean = graph.op("Div", total, graph.op("Add", number, np.array(prior)))
    return graph.op("Cast", mean, to=TensorProto.FLOAT)


def _convolution(graph: Graph, layer: Convolution, x: str, lengths: str) -> tuple[str, str]:
    """(B, C, F, T), 0 beyond the (B,) lengths -> the same at the layer's output: convolution, BN, clipped ReLU."""
    config, weight, bias = layer.config, layer.kernel.weight, layer.kernel.bias
    if layer.norm is not None:
        scale, bias = layer.norm.scale_and_shift(layer.norm.mean, layer.norm.variance)
        weight = weight * scale[:, None, None, None]
    assert bias is not None
    bins = config.kernel[0] // 2
    pads = [bins, config.before, bins, config.after]
    x = graph.op("Conv", x, graph.weight(weight), bias, strides=list(config.stride), pads=pads)
    stride = config.stride[1]
    lengths = graph.op("Div", graph.op("Add", lengths, integers(stride - 1)), integers(stride))
    valid = graph.op("Unsqueeze", valid_mask(graph, lengths, x, 3), integers(1, 2))
    return graph.op("Mul", _clipped_relu(graph, x), valid), lengths


def _clipped_relu(graph: Graph, x: str) -> str:
    return graph.op("Clip", x, scalar(0), scalar(CLIP))


def _recurrent(graph: Graph, layer: RecurrentLayer, x: str, lengths: str) -> str:
    """(T, B, D), (B,) -> (T, B, H), 0 beyond each utterance: both directions in one operator, then summed."""
    directions = [direction for direction in (layer.forwards, layer.backwards) if isinstance(direction, Direction)]
    cell, hidden = directions[0].cell, directions[0].recurrent_weight.shape[1]
    input_weights, recurrent_weights, biases = zip(*map(_folded, directions), strict=True)
    attributes: dict[str, dict[str, Any]] = {
        "rnn": {"activations": ["Relu"] * len(directions), "clip": CLIP},  # clips what goes into the ReLU
        "gru": {"linear_before_reset": 1},
        "lstm": {},
    }
    states = graph.op(
        OPERATORS[cell],
        x,
        graph.weight(torch.stack(input_weights), 2),
        graph.weight(torch.stack(recurrent_weights), 2),
        torch.stack(biases),
        graph.op("Cast", lengths, to=TensorProto.INT32),
        direction="bidirectional" if len(directions) == 2 else "forward",
        hidden_size=hidden,
        **attributes[cell],
    )  # (T, directions, B, H)
    total = graph.op("ReduceSum", states, integers(1), keepdims=0)
    valid = graph.op("Transpose", valid_mask(graph, lengths, x, 0), perm=[1, 0])
    return graph.op("Mul", total, graph.op("Unsqueeze", valid, integers(2)))


def _folded(direction: Direction) -> tuple[Tensor, Tensor, Tensor]:
    """(G H, D) and (G H, H) weights, (2 G H,) bias, the BN folded in, with the gates in ONNX's order."""
    weight, bias = direction.norm(direction.input_weight, None)
    order = GATE_ORDER[direction.cell]

    def ordered(gates: Tensor) -> Tensor:
        parts = gates.chunk(len(order))
        return torch.cat([parts[gate] for gate in order])

    biases = torch.cat([ordered(bias), ordered(direction.recurrent_bias)])
    return ordered(weight), ordered(direction.recurrent_weight), biases


def _lookahead(graph: Graph, layer: RowConvolution, x: str) -> str:
    """(T, B, H), 0 beyond each utterance -> (T, B, H)."""
    rows = graph.op("Transpose", x, perm=[1, 2, 0])
    units = len(layer.weight)
    rows = graph.op("Conv", rows, graph.weight(layer.weight.unsqueeze(1)), group=units, pads=[0, layer.tau])
    return graph.op("Transpose", rows, perm=[2, 0, 1])


def _fully_connected(graph: Graph, layer: FullyConnected, x: str) -> str:
    """(T, B, H) -> (T, B, U)."""
    return _clipped_relu(graph, linear(graph, x, *layer.norm(layer.weight, None)))
