"""The gate of channels as ds2/model/gate.py defines it, as ONNX operators."""

import numpy as np
from onnx import TensorProto

from ds2.export.graph_builder import Graph, integers, positions, scalar
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import GATE_FRAMES


def channel_gate(graph: Graph, layer: LayerWeights, x: str, past: tuple[str, str] | None = None) -> tuple[str, str]:
    """(B, C, 1, T) -> the same, each channel scaled by its mean so far.

    Args:
        past: (B, C) sum of the frames before, in float64; (B,) number of the first frame, below 0 before the stream.

    Returns:
        (B, C, 1, T), scaled; (B, C, T) sums up to each frame, in float64.
    """
    rows = graph.op("Squeeze", x, integers(2))
    sums = graph.op("CumSum", graph.op("Cast", rows, to=TensorProto.DOUBLE), np.array(2))
    numbers = graph.op("Unsqueeze", positions(graph, rows, 2), integers(0, 1))
    if past is not None:
        sums = graph.op("Add", sums, graph.op("Unsqueeze", past[0], integers(2)))
        numbers = graph.op("Add", numbers, graph.op("Unsqueeze", past[1], integers(1, 2)))
    frames = graph.op("Add", graph.op("Max", numbers, integers(-1)), integers(1 + GATE_FRAMES))
    prior = GATE_FRAMES * layer["prior"].astype(np.float64)[:, None]
    mean = graph.op("Div", graph.op("Add", sums, prior), graph.op("Cast", frames, to=TensorProto.DOUBLE))
    mean = graph.op("Cast", mean, to=TensorProto.FLOAT)
    units = graph.op("Relu", _product(graph, layer.under("narrow"), mean))
    gate = graph.op("Sigmoid", _product(graph, layer.under("wide"), units))
    scale = graph.op("Unsqueeze", graph.op("Mul", gate, scalar(2)), integers(2))
    return graph.op("Mul", x, scale), sums


def _product(graph: Graph, layer: LayerWeights, x: str) -> str:
    """(B, D, T) -> (B, U, T)."""
    return graph.op("Add", graph.op("MatMul", graph.weight(layer["weight"]), x), layer["bias"][:, None])
