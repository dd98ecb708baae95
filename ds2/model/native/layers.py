"""Layers over frames and their context: convolutions, time-delay layers, the row convolution; and activations."""

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import CLIP, ConvolutionConfig
from ds2.model.native.few_rows import FEW, multiply_few_rows

COLUMNS = 1 << 18  # values that a convolution gathers for one product: they stay in a core's cache


def clipped_relu(x: np.ndarray) -> np.ndarray:
    """(...) -> (...), between 0 and CLIP, in place."""
    return np.minimum(np.maximum(x, np.float32(0), out=x), np.float32(CLIP), out=x)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """(B, T, D), (H, D), (H,) -> (B, T, H)."""
    rows = np.ascontiguousarray(x.reshape(-1, x.shape[2]))
    if len(rows) <= FEW:
        found = np.empty((len(rows), len(weight)), np.float32)
        multiply_few_rows(rows, weight, found)
    else:
        found = rows @ weight.T
    if bias is not None:
        found += bias
    return found.reshape(*x.shape[:2], -1)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """(..., V) -> (..., V), over the last axis."""
    scores = scores - scores.max(-1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(-1, keepdims=True)))


def places(x: np.ndarray, size: int) -> np.ndarray:
    """(B, T, D) -> (B, T - size + 1, size D): the frames of each place of a kernel, side by side; a view."""
    batch, frames, width = x.shape
    return np.lib.stride_tricks.as_strided(x, (batch, frames - size + 1, size * width), x.strides)


class NativeConvolution:
    """Over frequency and time, or over time alone, BN folded in, then the clipped ReLU.

    (B, T, F C) frames with their context -> (B, T', F' C').
    """

    def __init__(self, inputs: int, bins: int, config: ConvolutionConfig, layer: LayerWeights, batch_norm: bool):
        self.config, self.inputs, self.bins = config, inputs, bins
        self.height = config.kernel[0] or bins
        kernel = layer.shaped("kernel.weight", config.channels, inputs, self.height, config.kernel[1])
        if batch_norm:
            scale, self.bias = layer.under("norm").scale_and_shift(config.channels)
            kernel = kernel * scale[:, None, None, None]
        else:
            self.bias = layer.shaped("kernel.bias", config.channels)
        # By frame, bin and channel, as the frames of a place lie.
        self.weight = np.ascontiguousarray(kernel.transpose(0, 3, 2, 1).reshape(config.channels, -1))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T, F C) frames with their context -> (B, T', F' C')."""
        batch, frames, edge = len(x), x.shape[1], self.config.kernel[0] // 2
        padded = np.zeros((batch, frames, self.bins + 2 * edge, self.inputs), np.float32)
        padded[:, :, edge : edge + self.bins] = x.reshape(batch, frames, self.bins, self.inputs)
        found = self._places(padded)
        columns, block = self.weight.shape[1], found.shape[1:3]
        result = np.empty((batch, *block, self.config.channels), np.float32)
        step = max(1, COLUMNS // (batch * block[1] * columns))
        for start in range(0, block[0], step):
            part = found[:, start : start + step]
            products = linear(part.reshape(1, -1, columns), self.weight)
            result[:, start : start + step] = products.reshape(*part.shape[:3], -1)
        result += self.bias
        return clipped_relu(result).reshape(batch, block[0], -1)

    def _places(self, padded: np.ndarray) -> np.ndarray:
        """(B, T, F, C) -> (B, T', F', frames of the kernel, its bins times C), a view."""
        batch, frames, bins, channels = padded.shape
        shape = (
            batch,
            (frames - self.config.kernel[1]) // self.config.stride[1] + 1,
            (bins - self.height) // self.config.stride[0] + 1,
            self.config.kernel[1],
            self.height * channels,
        )
        every, frame, bin_, value = padded.strides
        strides = (every, frame * self.config.stride[1], bin_ * self.config.stride[0], frame, value)
        return np.lib.stride_tricks.as_strided(padded, shape, strides)


class NativeTimeDelay:
    """A factored layer of ds2/model/time_delay.py: (B, T + k - 1, C) frames with their context -> (B, T, C')."""

    def __init__(self, inputs: int, config: ConvolutionConfig, layer: LayerWeights):
        self.config, self.first = config, (config.kernel[1] + 1) // 2
        self.second = config.kernel[1] + 1 - self.first
        scale, self.bias = layer.under("norm").scale_and_shift(config.channels)
        self.narrow = layer.shaped("narrow", config.bottleneck, self.first * inputs)
        self.wide = layer.shaped("wide", config.channels, self.second * config.bottleneck) * scale[:, None]
        self.bypass = np.float32(config.bypass if inputs == config.channels else 0)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T + k - 1, C) frames with their context -> (B, T, C')."""
        narrow = linear(places(x, self.first), self.narrow)
        wide = clipped_relu(linear(places(narrow, self.second), self.wide, self.bias))
        if self.bypass:
            wide += self.bypass * x[:, self.config.before : self.config.before + wide.shape[1]]
        return wide


def row_convolution(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(B, T + tau, H) with the future, (H, tau + 1) -> (B, T, H)."""
    count = x.shape[1] - weight.shape[1] + 1
    return np.asarray(sum(x[:, tap : tap + count] * weight[:, tap] for tap in range(weight.shape[1])))
