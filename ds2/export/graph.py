"""A graph in the making: operators, constants and weights, each by a call that returns the name of its result."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch import Tensor

from ds2.export.options import Weights

OPSET = 17
IR_VERSION = 8  # of ONNX 1.12, 2022: runtimes since then read it
LARGEST_INT8 = 127

Value = str | Tensor | np.ndarray  # a result by its name ("": an input left out), or a constant


class Graph:
    """Collects the nodes and the constants of an ONNX graph."""

    def __init__(self, weights: Weights = "float32"):
        """`weights`: how the file stores the arrays that `weight` is called with."""
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, operator: str, *inputs: Value, **attributes: Any) -> str:
        """Adds a node with one output -> the name of that output. Arrays among the inputs become constants."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], name=output, **attributes))
        return output

    def rename(self, value: str, name: str) -> None:
        """Gives a result the name of an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))

    def weight(self, values: Tensor, channel_axes: int = 1) -> str:
        """An array of weights, its first axes those of output channels -> the name of the same array in float32.

        In int8 each channel has its own scale, by which its largest weight is 127.
        """
        array = values.detach().numpy()
        if self.weights == "float32":
            return self._constant(array)
        if self.weights == "float16":
            return self.op("Cast", array.astype(np.float16), to=onnx.TensorProto.FLOAT)
        rows = array.reshape(-1, *array.shape[channel_axes:])
        largest = np.abs(rows).reshape(len(rows), -1).max(1)
        scale = np.where(largest > 0, largest / LARGEST_INT8, 1).astype(np.float32)
        levels = np.rint(rows / scale.reshape(-1, *[1] * (rows.ndim - 1))).astype(np.int8)
        restored = self.op("DequantizeLinear", levels, scale, np.zeros(len(rows), np.int8), axis=0)
        return restored if channel_axes == 1 else self.op("Reshape", restored, integers(*array.shape))

    def _constant(self, values: Tensor | np.ndarray) -> str:
        array = values.detach().numpy() if isinstance(values, Tensor) else values
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def model(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], metadata: dict[str, str]
    ) -> onnx.ModelProto:
        """The finished model, checked by onnx."""
        graph = helper.make_graph(self.nodes, "ds2", inputs, outputs, self.constants)
        model = helper.make_model(graph, producer_name="ds2", opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model


def integers(*values: int) -> np.ndarray:
    """A constant: axes, shapes, or numbers to add to lengths."""
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def valid_mask(graph: Graph, lengths: str, x: str, axis: int) -> str:
    """(B, size of an axis of x) 1 where a position belongs to the utterance, 0 beyond."""
    size = graph.op("Gather", graph.op("Shape", x), np.array(axis), axis=0)
    positions = graph.op("Range", np.array(0), size, np.array(1))
    valid = graph.op("Less", positions, graph.op("Unsqueeze", lengths, integers(1)))
    return graph.op("Cast", valid, to=onnx.TensorProto.FLOAT)


def linear(graph: Graph, x: str, weight: Tensor, bias: Value) -> str:
    """(T, B, D), (U, D), (U,) -> (T, B, U)."""
    return graph.op("Add", graph.op("MatMul", x, graph.op("Transpose", graph.weight(weight), perm=[1, 0])), bias)
