"""Constants and weights of a graph."""

import numpy as np
import pytest
import torch

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from helpers.runtimes import session
from onnx import TensorProto, helper

from ds2.export.graph_builder import Graph
from ds2.export.options import Weights


def stored(weights: Weights, values: torch.Tensor, channel_axes: int) -> tuple[np.ndarray, int]:
    """What a runtime reads back, and the bytes of the constants."""
    graph = Graph(weights)
    graph.rename(graph.op("Add", graph.weight(values.numpy(), channel_axes), "x"), "y")
    shape = tuple(values.shape)
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    model = graph.model([inputs], [outputs], {})
    [found] = session(model).run(None, {"x": np.zeros(shape, np.float32)})
    return found, sum(len(constant.raw_data) for constant in graph.constants)


@pytest.mark.parametrize(("weights", "most_bytes"), [("float32", 4), ("float16", 2), ("int8", 1.6)])
@pytest.mark.parametrize("channel_axes", [1, 2])
def test_weights_come_back_within_their_precision(weights: Weights, most_bytes: float, channel_axes: int) -> None:
    """In int8 each channel errs by half a step of its own scale, however large the other channels are."""
    torch.manual_seed(0)
    values = torch.randn(2, 3, 20) * torch.tensor([1e-3, 1.0, 1e3]).view(1, 3, 1)
    values = values if channel_axes == 2 else values[0]
    found, size = stored(weights, values, channel_axes)
    largest = values.abs().amax(-1, keepdim=True)
    error = {"float32": 0.0, "float16": 2**-11, "int8": 0.5001 / 127}[weights]
    assert bool(((torch.from_numpy(found) - values).abs() <= error * largest).all())
    assert size <= most_bytes * values.numel()


def test_a_channel_of_zeros_stays_zero_in_int8() -> None:
    found, _ = stored("int8", torch.tensor([[0.0, 0.0], [1.0, -1.0]]), 1)
    assert found.tolist() == [[0.0, 0.0], [1.0, -1.0]]
