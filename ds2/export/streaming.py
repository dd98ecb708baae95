"""A model as an ONNX graph for live streams: the step of ds2/model/slots.py, its state as in- and outputs.

A chunk is q frames of the front end: the model's own `chunk`, or any multiple of its stride. States are 0 where a
stream begins:

    samples (B, q * hop + overlap), positions (B,), lengths (B,), STATE ...
        -> log_probs (B, q / stride, V), phone_log_probs and biphones where the model has them, next_STATE ...
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from ds2.export.acoustic import convolution_layer, flattened, head, log_probs, lookahead_convolution, phone_scores
from ds2.export.frontend import adaptive_power, adaptively_centred, level_of, log_power, standardised
from ds2.export.gate import channel_gate
from ds2.export.graph_builder import Graph, integers, positions, value
from ds2.export.options import Weights
from ds2.export.recurrent import from_the_end, reverse, run_bn_lstm, run_cell
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import ModelConfig
from ds2.utils.errors import InputError


class _Step:
    """The graph of a step, the states that it takes and gives, and the place of its chunk in the stream."""

    def __init__(self, stored: Weights):
        self.graph = Graph(stored)
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def state(self, name: str, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        """(B, *shape) left by the chunk before."""
        self.inputs.append(value(name, kind, "B", *shape))
        self.outputs.append(value(f"next_{name}", kind, "B", *shape))
        return name

    def keep(self, name: str, result: str) -> None:
        """What the next chunk gets as this state."""
        self.graph.rename(result, f"next_{name}")

    def with_past(self, name: str, x: str, shape: tuple[int, ...], count: int) -> str:
        """x, time last, after the `count` frames that the chunk before left; leaves the last ones to the next chunk."""
        if not count:
            return x
        x = self.graph.op("Concat", self.state(name, *shape, count), x, axis=-1)
        self.keep(name, self.graph.op("Slice", x, integers(-count), integers(1 << 40), integers(-1)))
        return x

    def first(self, stride: int, delay: int) -> str:
        """(B,) number in the stream of the first frame that a layer gives for this chunk; below 0 before the stream."""
        return self.graph.op("Sub", self.graph.op("Div", "positions", integers(stride)), integers(delay))

    def valid(self, x: str, axis: int, stride: int, delay: int) -> str:
        """(B, frames of x) 1 where a frame of a layer's output lies within the stream."""
        graph = self.graph
        first = graph.op("Unsqueeze", self.first(stride, delay), integers(1))
        index = graph.op("Add", first, positions(graph, x, axis))
        length = graph.op("Div", graph.op("Add", "lengths", integers(stride - 1)), integers(stride))
        before = graph.op("Less", index, graph.op("Unsqueeze", length, integers(1)))
        after = graph.op("GreaterOrEqual", index, integers(0))
        return graph.op("Cast", graph.op("And", before, after), to=TensorProto.FLOAT)


def streaming_graph(
    config: ModelConfig, weights: Mapping[str, np.ndarray], stored: Weights, metadata: dict[str, str]
) -> onnx.ModelProto:
    """The step of a model; log_probs, (B, T', V), are those of the output frames from positions / stride - delay on.

    samples: (B, N) of a chunk; positions: (B,) front-end frames of the stream before it; lengths: (B,) of the whole
    stream, or a number beyond all.

    Raises:
        InputError: the model cannot stream, or a weight is missing.
    """
    refuse_streaming(config)
    step, model = _Step(stored), LayerWeights(weights)
    graph = step.graph
    x = graph.op("Unsqueeze", _features(step, config, model.under("frontend")), integers(1))
    channels, bins, stride = 1, config.frontend.bins, 1
    for number, (convolution, (keeps, delay)) in enumerate(zip(config.convolutions, config.waits, strict=True)):
        x = step.with_past(f"kept_{number}", x, (channels, bins), keeps)
        x = convolution_layer(graph, config, model.under(f"convolutions.{number}"), convolution, x, (0, 0))
        channels, bins, stride = convolution.channels, convolution.bins(bins), stride * convolution.stride[1]
        valid = step.valid(x, 3, stride, delay)
        x = graph.op("Mul", x, graph.op("Unsqueeze", valid, integers(1, 2)))
        if convolution.gate:
            past = step.state(f"gate_sum_{number}", channels, kind=TensorProto.DOUBLE), step.first(stride, delay)
            x, sums = channel_gate(graph, model.under(f"gates.{number}"), x, past)
            step.keep(f"gate_sum_{number}", graph.op("Gather", sums, np.array(-1), axis=2))
    _, x = flattened(graph, config, x)
    x = graph.op("Mul", _recurrent_stack(step, config, model, x), _of_frames(graph, valid))
    if config.lookahead:
        units = graph.op("Transpose", x, perm=[1, 2, 0])
        x = lookahead_convolution(graph, model, step.with_past("future", units, (config.width,), config.lookahead))
    results = [log_probs(graph, model, "", graph.op("Transpose", head(graph, config, model, x), perm=[1, 0, 2]))]
    results += phone_scores(graph, config, model, x)
    inputs = [value("samples", TensorProto.FLOAT, "B", "N")]
    inputs += [value(name, TensorProto.INT64, "B") for name in ("positions", "lengths")]
    return graph.model([*inputs, *step.inputs], [*results, *step.outputs], metadata)


def refuse_streaming(config: ModelConfig) -> None:
    """Refuses a model that cannot stream.

    Raises:
        InputError: saying why.
    """
    try:
        config.check_streaming()
    except ValueError as error:
        raise InputError(str(error)) from error


def _features(step: _Step, config: ModelConfig, layer: LayerWeights) -> str:
    """(B, F, q), 0 after the end."""
    graph = step.graph
    samples = graph.op("Unsqueeze", "samples", integers(1))
    level = level_of(graph, config.frontend, samples, step.state("sounding", kind=TensorProto.DOUBLE))
    last = graph.op("Gather", level.number, np.array(-1), axis=2)
    step.keep("sounding", graph.op("Squeeze", last, integers(1)))
    past = step.state("power_sum", kind=TensorProto.DOUBLE)
    power, sums = adaptive_power(graph, config.frontend, layer, level, past)
    last = graph.op("Gather", sums, np.array(-1), axis=2)
    step.keep("power_sum", graph.op("Squeeze", last, integers(1)))
    features = log_power(graph, config.frontend, samples, power)
    if config.frontend.mean == "adaptive":
        before = step.state("feature_sum", config.frontend.bins, kind=TensorProto.DOUBLE)
        features, sums = adaptively_centred(graph, config.frontend, layer, features, level, before)
        step.keep("feature_sum", graph.op("Gather", sums, np.array(-1), axis=2))
    features = standardised(graph, layer, features)
    return graph.op("Mul", features, graph.op("Unsqueeze", step.valid(features, 2, 1, 0), integers(1)))


def _recurrent_stack(step: _Step, config: ModelConfig, model: LayerWeights, x: str) -> str:
    """(T, B, D) -> (T, B, H). Frames before the stream must not move its state: they are put behind the others.

    [before before 0 1 2] -> reversed [2 1 0 before before] -> its first three reversed [0 1 2 before before]
    """
    graph = step.graph
    size = graph.op("Shape", x, end=1)
    # The layers below wait for sound of the future, so the first steps have frames before the stream: `missing`.
    number = step.first(config.stride, config.waits[-1][1])
    missing = graph.op("Max", graph.op("Neg", number), integers(0))
    count = graph.op("Sub", size, graph.op("Min", missing, size))  # (B,) frames that are not before the stream
    every = graph.op("Expand", size, graph.op("Shape", "positions"))
    valid = _valid_count(step, config, missing, size) if config.chunk else ""
    x = reverse(graph, reverse(graph, x, every), count)
    # Each layer goes on from its state of the step before, over the frames of the stream alone, and keeps its last one.
    for layer in range(config.recurrent_layers):
        states = [step.state(f"{name}_{layer}", config.hidden) for name in config.spec.state]
        direction = model.under(f"recurrent.{layer}.forwards")
        if config.spec.step_statistics:
            before = graph.op("Max", number, integers(0))
            rows, *last = run_bn_lstm(graph, direction, x, count, before, tuple(states))
        else:
            first = tuple(graph.op("Unsqueeze", state, integers(0)) for state in states)
            rows, *ends = run_cell(graph, config, [direction], x, count, first)
            last = [graph.op("Squeeze", end, integers(0)) for end in ends]
            rows = graph.op("Squeeze", rows, integers(1))
        if config.bidirectional:
            backwards = from_the_end(graph, config, model.under(f"recurrent.{layer}.backwards"), x, valid)
            rows = graph.op("Add", rows, backwards)
        x = rows
        for state, result in zip(states, last, strict=True):
            step.keep(state, result)
    return reverse(graph, reverse(graph, x, count), every)


def _valid_count(step: _Step, config: ModelConfig, missing: str, size: str) -> str:
    """(B,) frames of the chunk within the stream: without those before it and after its end."""
    graph = step.graph
    length = graph.op("Div", graph.op("Add", "lengths", integers(config.stride - 1)), integers(config.stride))
    until = graph.op("Sub", length, step.first(config.stride, config.waits[-1][1]))
    return graph.op("Max", graph.op("Sub", graph.op("Min", until, size), missing), integers(0))


def _of_frames(graph: Graph, valid: str) -> str:
    """(B, T) -> (T, B, 1)."""
    return graph.op("Unsqueeze", graph.op("Transpose", valid, perm=[1, 0]), integers(2))
