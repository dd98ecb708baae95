"""The random walk as ds2/model/random_walk.py defines it: posteriors diffuse among similar frames."""

import numpy as np
from onnx import TensorProto

from ds2.export.graph_builder import Graph, integers, linear, scalar, valid_mask
from ds2.model.bundle_weights import LayerWeights


def random_walk(graph: Graph, radius: int, layer: LayerWeights, low: str, logits: str, frames: str) -> str:
    """(B, D, T) low features, (B, T, V) logits, (B,) -> (B, T, V) log of the diffused posteriors."""
    affinities = _affinities(graph, radius, layer, low, frames)
    posteriors = graph.op("Softmax", logits, axis=2)
    weights = graph.op("Unsqueeze", affinities, integers(2))  # (B, T, 1, 2R + 1)
    diffused = graph.op("MatMul", weights, _shifted_frames(graph, posteriors, radius))
    return graph.op("Log", graph.op("Max", graph.op("Squeeze", diffused, integers(2)), _tiny()))


def _affinities(graph: Graph, radius: int, layer: LayerWeights, low: str, frames: str) -> str:
    """(B, D, T), (B,) -> (B, T, 2R + 1) weights of the frames t - R .. t + R, summing to 1 over the valid ones."""
    project = layer["project.weight"]
    units = linear(graph, graph.op("Transpose", low, perm=[0, 2, 1]), project, np.zeros(len(project), np.float32))
    differences = graph.op("Sub", _shifted_frames(graph, units, radius), graph.op("Unsqueeze", units, integers(2)))
    distances = graph.op("MatMul", graph.op("Abs", differences), layer["distance"][:, None])
    scores = graph.op("Add", graph.op("Squeeze", distances, integers(3)), layer["offset"])
    mask = graph.op("Unsqueeze", valid_mask(graph, frames, units, 1), integers(2))
    near = graph.op("Squeeze", _shifted_frames(graph, mask, radius), integers(3))
    itself = np.arange(2 * radius + 1) == radius  # valid in padding too
    valid = graph.op("Or", graph.op("Cast", near, to=TensorProto.BOOL), itself)
    return graph.op("Softmax", graph.op("Where", valid, scores, scalar(-np.inf)), axis=2)


def _shifted_frames(graph: Graph, x: str, radius: int) -> str:
    """(B, T, D) -> (B, T, 2R + 1, D): of each frame those from R before to R after, 0 beyond the ends."""
    padded = graph.op("Pad", x, integers(0, radius, 0, 0, radius, 0))
    size = graph.op("Shape", x, start=1, end=2)
    shifted = []
    for start in range(2 * radius + 1):
        end = graph.op("Add", size, integers(start))
        rows = graph.op("Slice", padded, integers(start), end, integers(1))
        shifted.append(graph.op("Unsqueeze", rows, integers(2)))
    return graph.op("Concat", *shifted, axis=2)


def _tiny() -> np.ndarray:
    """The least normal number of float32, whose logarithm is finite."""
    return scalar(float(np.finfo(np.float32).tiny))
