"""A graph in the making: operators, constants and weights, each by a call that returns the name of its result."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ds2.export.options import Weights

OPSET = 17
IR_VERSION = 8  # of ONNX 1.12, 2022: runtimes since then read it
LARGEST_INT8 = 127

Value = str | np.ndarray  # a result by its name ("": an input left out), or a constant


class Graph:
    """Collects the nodes and the constants of an ONNX graph."""

    def __init__(self, weights: Weights = "float32", prefix: str = ""):
        """`weights`: how the file stores the arrays that `weight` is called with. `prefix` of all names."""
        self.weights, self.prefix = weights, prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, operator: str, *inputs: Value, **attributes: Any) -> str:
        """Adds a node with one output -> the name of that output. Arrays among the inputs become constants."""
        return self.ops(1, operator, *inputs, **attributes)[0]

    def ops(self, outputs: int, operator: str, *inputs: Value, **attributes: Any) -> list[str]:
        """Adds a node -> the names of its first outputs."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = f"{self.prefix}{operator}_{len(self.nodes)}"
        results = [name, *(f"{name}_{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, names, results, name=name, **attributes))
        return results

    def rename(self, value: str, name: str) -> None:
        """Gives a result the name of an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))

    def body(self) -> "Graph":
        """The graph in the making of an operator's body; it may use all results of this one."""
        return Graph(self.weights, f"{self.prefix}body{len(self.nodes)}_")

    def weight(self, values: np.ndarray, channel_axes: int = 1) -> str:
        """(M, ...) weights, first the axes of output channels -> the name of the same array in float32.

        In int8 each channel has its own scale, by which its largest weight is 127.
        """
        if self.weights == "float32":
            return self._constant(values)
        if self.weights == "float16":
            return self.op("Cast", values.astype(np.float16), to=onnx.TensorProto.FLOAT)
        rows = values.reshape(-1, *values.shape[channel_axes:])
        largest = np.abs(rows).reshape(len(rows), -1).max(1)
        scale = (largest / LARGEST_INT8).astype(np.float32)
        scale[scale == 0] = 1
        levels = np.rint(rows / scale.reshape(-1, *[1] * (rows.ndim - 1))).astype(np.int8)
        restored = self.op("DequantizeLinear", levels, scale, np.zeros(len(rows), np.int8), axis=0)
        return restored if channel_axes == 1 else self.op("Reshape", restored, integers(*values.shape))

    def _constant(self, values: np.ndarray) -> str:
        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name))
        return name

    def finished(self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]) -> onnx.GraphProto:
        """The graph of all nodes that were added."""
        return helper.make_graph(self.nodes, f"{self.prefix}ds2", inputs, outputs, self.constants)

    def model(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], metadata: dict[str, str]
    ) -> onnx.ModelProto:
        """The finished model, checked by onnx."""
        graph = self.finished(inputs, outputs)
        model = helper.make_model(graph, producer_name="ds2", opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model


def value(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
    """An input or an output of a graph; sizes with a name are any."""
    return helper.make_tensor_value_info(name, kind, shape)


def integers(*values: int) -> np.ndarray:
    """(n,) constant: axes, shapes, or numbers to add to lengths."""
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    """() constant."""
    return np.array(value, np.float32)


def positions(graph: Graph, x: str, axis: int) -> str:
    """(size of an axis of x,) 0, 1, 2 ..."""
    size = graph.op("Gather", graph.op("Shape", x), np.array(axis), axis=0)
    return graph.op("Range", np.array(0), size, np.array(1))


def valid_mask(graph: Graph, lengths: str, x: str, axis: int) -> str:
    """(B, size of an axis of x) 1 where a position belongs to the utterance, 0 beyond."""
    valid = graph.op("Less", positions(graph, x, axis), graph.op("Unsqueeze", lengths, integers(1)))
    return graph.op("Cast", valid, to=onnx.TensorProto.FLOAT)


def linear(graph: Graph, x: str, weight: np.ndarray, bias: Value) -> str:
    """(T, B, D), (U, D), (U,) -> (T, B, U)."""
    return graph.op("Add", graph.op("MatMul", x, graph.op("Transpose", graph.weight(weight), perm=[1, 0])), bias)


def clipped_relu(graph: Graph, x: str, clip: float) -> str:
    """Adds min(max(x, 0), clip), and returns its name."""
    return graph.op("Clip", x, scalar(0), scalar(clip))
