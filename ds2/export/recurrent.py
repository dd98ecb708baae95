"""Recurrent layers as ds2/model/recurrent.py defines them: ONNX's own operators, and a loop for the BN-LSTM."""

import numpy as np
import onnx
from onnx import TensorProto

from ds2.export.graph_builder import Graph, Value, integers, linear, positions, scalar, valid_mask, value
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import CLIP, ModelConfig

BEGINNING = integers(0)  # frames before the first


def recurrent(graph: Graph, config: ModelConfig, layer: LayerWeights, x: str, lengths: str) -> str:
    """(T, B, D), (B,) -> (T, B, H), arbitrary beyond each utterance: the directions, summed."""
    if config.chunk:
        forwards = run_direction(graph, config, layer.under("forwards"), x, lengths)
        return graph.op("Add", forwards, _in_chunks(graph, config, layer.under("backwards"), x, lengths))
    names = ["forwards", "backwards"] if config.bidirectional else ["forwards"]
    directions = [layer.under(name) for name in names]
    if config.spec.step_statistics:
        results = [run_direction(graph, config, directions[0], x, lengths)]
        if config.bidirectional:
            results.append(from_the_end(graph, config, directions[1], x, lengths))
        return graph.op("Sum", *results)
    states, *_ = run_cell(graph, config, directions, x, lengths)
    return graph.op("ReduceSum", states, integers(1), keepdims=0)


def _in_chunks(graph: Graph, config: ModelConfig, direction: LayerWeights, x: str, lengths: str) -> str:
    """(T, B, D), (B,) -> (T, B, H) of a backward direction that begins anew at the end of every chunk.

    (T, B, D) -> (chunks, frames, B, D) -> (frames, chunks * B, D) -> the direction, last frame to first -> and back.
    """
    size, missing = config.chunk, config.waits[-1][1]
    frames, batch, inputs = (graph.op("Shape", x, start=axis, end=axis + 1) for axis in range(3))
    count = graph.op("Div", graph.op("Add", frames, integers(missing + size - 1)), integers(size))
    padded = graph.op("Mul", count, integers(size))
    after = graph.op("Sub", graph.op("Sub", padded, frames), integers(missing))
    x = graph.op("Pad", x, graph.op("Concat", integers(missing, 0, 0), after, integers(0, 0), axis=0))
    rows = graph.op("Reshape", x, graph.op("Concat", count, integers(size), batch, inputs, axis=0))
    rows = graph.op("Transpose", rows, perm=[1, 0, 2, 3])
    rows = graph.op("Reshape", rows, graph.op("Concat", integers(size, -1), inputs, axis=0))
    starts = graph.op("Mul", graph.op("Range", np.array(0), graph.op("Squeeze", count), np.array(1)), integers(size))
    held = graph.op("Sub", graph.op("Add", lengths, integers(missing)), graph.op("Unsqueeze", starts, integers(1)))
    held = graph.op("Clip", held, np.array(0), np.array(size))
    states = from_the_end(graph, config, direction, rows, graph.op("Reshape", held, integers(-1)))
    states = graph.op("Reshape", states, graph.op("Concat", integers(size), count, batch, integers(-1), axis=0))
    states = graph.op("Transpose", states, perm=[1, 0, 2, 3])
    states = graph.op("Reshape", states, graph.op("Concat", padded, batch, integers(-1), axis=0))
    return graph.op("Slice", states, integers(missing), graph.op("Add", frames, integers(missing)), integers(0))


def from_the_end(graph: Graph, config: ModelConfig, direction: LayerWeights, x: str, lengths: str) -> str:
    """(T, B, D), (B,) -> (T, B, H): a direction from each utterance's last frame to its first."""
    return reverse(graph, run_direction(graph, config, direction, reverse(graph, x, lengths), lengths), lengths)


def run_direction(graph: Graph, config: ModelConfig, direction: LayerWeights, x: str, lengths: str) -> str:
    """(T, B, D), (B,) -> (T, B, H): one direction of any cell, from the first frame to the last."""
    if config.spec.step_statistics:
        return run_bn_lstm(graph, direction, x, lengths)[0]
    return graph.op("Squeeze", run_cell(graph, config, [direction], x, lengths)[0], integers(1))


def run_cell(
    graph: Graph, config: ModelConfig, directions: list[LayerWeights], x: str, lengths: str, first: tuple[str, ...] = ()
) -> list[str]:
    """One operator runs all directions of a simple RNN, GRU or LSTM.

    Args:
        x: (T, B, D) input; lengths: (B,) valid frames.
        first: (directions, B, H) state before the first frame, of an LSTM h and c; by default 0.

    Returns:
        (T, directions, B, H) states, (directions, B, H) the last h, and of an LSTM the last c.
    """
    input_weights, recurrent_weights, biases = zip(*(_ordered(config, each) for each in directions), strict=True)
    operator = config.spec.onnx
    assert operator is not None
    return graph.ops(
        1 + len(config.spec.state),
        operator.name,
        x,
        graph.weight(np.stack(input_weights), 2),
        graph.weight(np.stack(recurrent_weights), 2),
        np.stack(biases),
        graph.op("Cast", lengths, to=TensorProto.INT32),
        *first,
        direction="bidirectional" if len(directions) == 2 else "forward",
        hidden_size=config.hidden,
        activations=[operator.activation] * len(directions) if operator.activation else None,
        clip=CLIP if operator.activation else None,
        linear_before_reset=operator.linear_before_reset,
    )


def _ordered(config: ModelConfig, direction: LayerWeights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(G H, D) and (G H, H) weights, (2 G H,) bias, the BN folded in, with the gates in ONNX's order."""
    weight, bias = direction.folded("input_weight", config)
    own, operator = config.spec.gates, config.spec.onnx
    assert operator is not None

    def ordered(rows: np.ndarray) -> np.ndarray:
        gates = dict(zip(own, np.split(rows, len(own)), strict=True))
        return np.concatenate([gates[name] for name in operator.gates])

    biases = np.concatenate([ordered(bias), ordered(direction["recurrent_bias"])])
    return ordered(weight), ordered(direction["recurrent_weight"]), biases


def reverse(graph: Graph, x: str, lengths: str) -> str:
    """(T, B, D): reverses the first (B,) `lengths` frames of each utterance; the padding stays after them."""
    return graph.op("ReverseSequence", x, lengths, batch_axis=1, time_axis=0)


def run_bn_lstm(
    graph: Graph, direction: LayerWeights, x: str, lengths: str, before: Value = BEGINNING, first: tuple[str, ...] = ()
) -> list[str]:
    """A BN-LSTM: BN is a scale and a shift for each time step, known before the loop begins.

    Args:
        x: (T, B, D) input; lengths: (B,) valid frames, which move the state.
        before: (B,) or (1,) frames of each stream before x.
        first: (B, H) h and c before the first frame; by default 0.

    Returns:
        (T, B, H) states, (B, H) the last h and c.
    """
    hidden = direction["recurrent_weight"].shape[1]
    steps = _steps(graph, x, before)
    scale, shift = _of_steps(graph, direction.under("input_norm"), steps)
    recurrent_scale, recurrent_shift = _of_steps(graph, direction.under("recurrent_norm"), steps)
    shift = graph.op("Add", shift, graph.op("Add", recurrent_shift, direction["bias"]))
    terms = linear(graph, x, direction["input_weight"], np.zeros(4 * hidden, np.float32))
    terms = graph.op("Add", graph.op("Mul", terms, scale), shift)  # (T, B, 4 H)
    cell_scale, cell_shift = _of_steps(graph, direction.under("cell_norm"), steps)
    cell_shift = graph.op("Add", cell_shift, direction["beta"])
    valid = graph.op("Transpose", valid_mask(graph, lengths, x, 0), perm=[1, 0])
    scanned = (terms, recurrent_scale, cell_scale, cell_shift, graph.op("Unsqueeze", valid, integers(2)))
    if not first:
        batch = graph.op("Concat", graph.op("Shape", x, start=1, end=2), integers(hidden), axis=0)
        first = (graph.op("Expand", scalar(0), batch),) * 2
    body = _bn_lstm_step(graph, direction["recurrent_weight"])
    h, c, states = graph.ops(3, "Scan", *first, *scanned, body=body, num_scan_inputs=len(scanned))
    return [states, h, c]


def _bn_lstm_step(graph: Graph, weight: np.ndarray) -> onnx.GraphProto:
    """The body of the loop: a frame of B utterances, with its scales and shifts."""
    hidden, step = weight.shape[1], graph.body()
    recurrent = step.op("MatMul", "h", step.op("Transpose", step.weight(weight), perm=[1, 0]))
    gates = step.op("Add", step.op("Mul", recurrent, "recurrent_scale"), "term")
    i, f, g, o = step.ops(4, "Split", gates, axis=1)
    kept = step.op("Mul", step.op("Sigmoid", f), "c")
    c = step.op("Add", kept, step.op("Mul", step.op("Sigmoid", i), step.op("Tanh", g)))
    normalised = step.op("Add", step.op("Mul", c, "cell_scale"), "cell_shift")
    h = step.op("Mul", step.op("Sigmoid", o), step.op("Tanh", normalised))
    valid = step.op("Greater", "valid", scalar(0))
    for result, name in ((step.op("Where", valid, h, "h"), "next_h"), (step.op("Where", valid, c, "c"), "next_c")):
        step.rename(result, name)
    step.rename(h, "state")
    sizes: dict[str, tuple[str | int, int]] = {
        "h": ("B", hidden),
        "c": ("B", hidden),
        "term": ("B", 4 * hidden),
        "recurrent_scale": ("S", 4 * hidden),
        "cell_scale": ("S", hidden),
        "cell_shift": ("S", hidden),
        "valid": ("B", 1),
    }
    inputs = [value(name, TensorProto.FLOAT, *shape) for name, shape in sizes.items()]
    outputs = [value(name, TensorProto.FLOAT, "B", hidden) for name in ("next_h", "next_c", "state")]
    return step.finished(inputs, outputs)


def _steps(graph: Graph, x: str, before: Value) -> str:
    """(T, B) or (T, 1) number of each frame in its stream."""
    return graph.op("Add", graph.op("Unsqueeze", positions(graph, x, 0), integers(1)), before)


def _of_steps(graph: Graph, norm: LayerWeights, steps: str) -> tuple[str, str]:
    """(T, B or 1, H) scale and shift of each frame; frames beyond the last that training has reached use its own."""
    scale, shift = norm.scales_and_shifts(len(norm["gamma"]))
    place = graph.op("Min", steps, np.array(len(scale) - 1))
    return graph.op("Gather", scale, place, axis=0), graph.op("Gather", shift, place, axis=0)
