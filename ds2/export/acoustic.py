"""The acoustic model as an ONNX graph, layer by layer as ds2/model defines it. B utterances, N samples, T frames."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from ds2.export.frontend import frontend
from ds2.export.gate import channel_gate
from ds2.export.graph_builder import Graph, clipped_relu, integers, linear, scalar, valid_mask, value
from ds2.export.options import Weights
from ds2.export.random_walk import random_walk
from ds2.export.recurrent import recurrent
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import CLIP, ConvolutionConfig, ModelConfig


def acoustic_graph(
    config: ModelConfig,
    weights: Mapping[str, np.ndarray],
    stored: Weights,
    metadata: dict[str, str],
    sherpa: bool = False,
) -> onnx.ModelProto:
    """A model -> its graph: samples (B, N), lengths (B,) -> log_probs (B, T, V) in float32, frames (B,).

    Where the model has them, phone_log_probs (B, T, P) and biphones (B, T, Q) come as well. Rows beyond an utterance's
    frames mean nothing.

    Args:
        weights: the model's state, by name.
        sherpa: leaves out the input `lengths`, so that all utterances have N samples, and the outputs for phones.

    Raises:
        InputError: a weight is missing.
    """
    graph, model = Graph(stored), LayerWeights(weights)
    x, frames = frontend(
        graph, config.frontend, model.under("frontend"), "samples", _all_samples(graph) if sherpa else "lengths"
    )
    x = graph.op("Unsqueeze", x, integers(1))
    for number, convolution in enumerate(config.convolutions):
        pads = (convolution.before, convolution.after)
        x = convolution_layer(graph, config, model.under(f"convolutions.{number}"), convolution, x, pads)
        stride = convolution.stride[1]
        frames = graph.op("Div", graph.op("Add", frames, integers(stride - 1)), integers(stride))
        valid = graph.op("Unsqueeze", valid_mask(graph, frames, x, 3), integers(1, 2))
        x = graph.op("Mul", x, valid)
        if convolution.gate:
            x, _ = channel_gate(graph, model.under(f"gates.{number}"), x)
    low, x = flattened(graph, config, x)
    for number in range(config.recurrent_layers):
        x = recurrent(graph, config, model.under(f"recurrent.{number}"), x, frames)
        valid = graph.op("Transpose", valid_mask(graph, frames, x, 0), perm=[1, 0])
        x = graph.op("Mul", x, graph.op("Unsqueeze", valid, integers(2)))
    if config.lookahead:
        units = graph.op("Pad", graph.op("Transpose", x, perm=[1, 2, 0]), integers(0, 0, 0, 0, 0, config.lookahead))
        x = lookahead_convolution(graph, model, units)
    logits = graph.op("Transpose", head(graph, config, model, x), perm=[1, 0, 2])
    if config.random_walk:
        logits = random_walk(graph, config.random_walk, model.under("random_walk"), low, logits, frames)
    graph.rename(frames, "frames")
    inputs = [value("samples", TensorProto.FLOAT, "B", "N"), value("lengths", TensorProto.INT64, "B")]
    outputs = [log_probs(graph, model, "", logits), value("frames", TensorProto.INT64, "B")]
    if not sherpa:
        outputs += phone_scores(graph, config, model, x)
    return graph.model(inputs[:1] if sherpa else inputs, outputs, metadata)


def _all_samples(graph: Graph) -> str:
    """(B,) lengths: N of every utterance."""
    return graph.op("Expand", graph.op("Shape", "samples", start=1), graph.op("Shape", "samples", end=1))


def convolution_layer(
    graph: Graph, config: ModelConfig, layer: LayerWeights, shape: ConvolutionConfig, x: str, pads: tuple[int, int]
) -> str:
    """(B, C, F, T) -> the layer's output: convolution, BN, clipped ReLU; `pads`: frames before and after."""
    if shape.bottleneck:
        return time_delay(graph, layer, shape, x, pads)
    weight = layer["kernel.weight"]
    if config.batch_norm:
        scale, bias = layer.under("norm").scale_and_shift(shape.channels)
        weight = weight * scale[:, None, None, None]
    else:
        bias = layer["kernel.bias"]
    bins = shape.kernel[0] // 2
    strides, padding = list(shape.stride), [bins, pads[0], bins, pads[1]]
    return clipped_relu(graph, graph.op("Conv", x, graph.weight(weight), bias, strides=strides, pads=padding), CLIP)


def time_delay(graph: Graph, layer: LayerWeights, shape: ConvolutionConfig, x: str, pads: tuple[int, int]) -> str:
    """(B, C, 1, T) -> (B, C', 1, T'): the two factors, BN, clipped ReLU, and the input's share of the output."""
    first = (shape.kernel[1] + 1) // 2
    narrow, wide = layer["narrow"], layer["wide"]
    scale, bias = layer.under("norm").scale_and_shift(shape.channels)
    kernels = (
        narrow.reshape(len(narrow), first, 1, -1).transpose(0, 3, 2, 1),
        (wide * scale[:, None]).reshape(len(wide), shape.kernel[1] + 1 - first, 1, -1).transpose(0, 3, 2, 1),
    )
    padded = graph.op("Pad", x, integers(0, 0, 0, pads[0], 0, 0, 0, pads[1])) if any(pads) else x
    product = graph.op("Conv", padded, graph.weight(np.ascontiguousarray(kernels[0])))
    product = graph.op("Conv", product, graph.weight(np.ascontiguousarray(kernels[1])), bias)
    result = clipped_relu(graph, product, CLIP)
    if not shape.bypass or kernels[0].shape[1] != shape.channels:
        return result
    # With the context of a live step the input has more frames than the output.
    before, after = (0, 0) if any(pads) else (shape.before, shape.after)
    ends = integers(-after if after else 1 << 40)
    own = graph.op("Slice", x, integers(before), ends, integers(3)) if before or after else x
    return graph.op("Add", result, graph.op("Mul", own, scalar(shape.bypass)))


def flattened(graph: Graph, config: ModelConfig, x: str) -> tuple[str, str]:
    """(B, C, F, T) -> (B, C * F, T); (T, B, C * F), as the recurrent operators take it."""
    bins = config.frontend.bins
    for convolution in config.convolutions:
        bins = convolution.bins(bins)
    low = graph.op("Reshape", x, integers(0, config.convolutions[-1].channels * bins, -1))
    return low, graph.op("Transpose", low, perm=[2, 0, 1])


def lookahead_convolution(graph: Graph, model: LayerWeights, units: str) -> str:
    """(B, H, T + tau), the future included -> (T, B, H)."""
    weight = model["lookahead.weight"]
    return graph.op(
        "Transpose", graph.op("Conv", units, graph.weight(weight[:, None]), group=len(weight)), perm=[2, 0, 1]
    )


def head(graph: Graph, config: ModelConfig, model: LayerWeights, x: str) -> str:
    """(T, B, H) -> (T, B, V): the layers that process each frame separately."""
    if config.fully_connected:
        layer = model.under("fully_connected")
        x = clipped_relu(graph, linear(graph, x, *layer.folded("weight", config)), CLIP)
    return linear(graph, x, model["output.weight"], model["output.bias"])


def log_probs(graph: Graph, model: LayerWeights, kind: str, logits: str) -> onnx.ValueInfoProto:
    """Makes (B, T, V) log-probabilities an output of the graph; `kind`: "" of tokens, or "phone_"."""
    graph.rename(graph.op("LogSoftmax", logits, axis=2), f"{kind}log_probs")
    return value(f"{kind}log_probs", TensorProto.FLOAT, "B", "T", len(model[f"{kind}output.weight"]))


def phone_scores(graph: Graph, config: ModelConfig, model: LayerWeights, x: str) -> list[onnx.ValueInfoProto]:
    """(T, B, H) -> the outputs phone_log_probs (B, T, P) and biphones (B, T, Q), as far as the model has them."""
    found, x = [], graph.op("Transpose", x, perm=[1, 0, 2])
    if config.phones:
        logits = linear(graph, x, model["phone_output.weight"], model["phone_output.bias"])
        found.append(log_probs(graph, model, "phone_", logits))
    if config.biphones:
        found.append(biphones(graph, config, model.under("biphones"), x))
    return found


def biphones(graph: Graph, config: ModelConfig, layer: LayerWeights, x: str) -> onnx.ValueInfoProto:
    """(B, T, H) -> the output biphones (B, T, Q), at most 0."""
    labels = config.phones - 1
    narrow = graph.op("MatMul", x, graph.op("Transpose", graph.weight(layer["narrow.weight"]), perm=[1, 0]))
    scores = linear(graph, narrow, layer["output.weight"], layer["output.bias"])
    pairs = graph.op("Reshape", scores, integers(0, 0, labels, labels))
    below = graph.op("Sub", pairs, graph.op("ReduceMax", pairs, axes=[2], keepdims=1))
    graph.rename(graph.op("Reshape", below, integers(0, 0, config.pairs)), "biphones")
    return value("biphones", TensorProto.FLOAT, "B", "T", config.pairs)
