"""Layers over frames and their context: convolutions, time-delay layers, the row convolution; and activations."""

from typing import Protocol

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import CLIP, ConvolutionConfig
from ds2.model.native.few_rows import FEW, multiply_few_rows
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit

COLUMNS = 1 << 18  # values that a convolution gathers for one product: they stay in a core's cache
MANY = 16  # times as many frames as the kernel has: no live step, which shall take little memory


class Layer(Protocol):
    """A layer over frames and their context; it computes `at_once` frames of a whole utterance at once."""

    config: ConvolutionConfig
    at_once: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T, D) frames with their context -> (B, T', D')."""


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
    """(B, T, D) contiguous -> (B, T - size + 1, size D): the frames of each place of a kernel, side by side; a view."""
    batch, frames, width = x.shape
    # as_strided does the same, and takes ten times as long.
    return np.ndarray((batch, frames - size + 1, size * width), x.dtype, x, strides=x.strides)


class NativeConvolution:
    """Over frequency and time, or over time alone, BN folded in, then the clipped ReLU.

    (B, T, F C) frames with their context -> (B, T', F' C').
    """

    at_once = 256

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
        by_frame = kernel.transpose(0, 3, 2, 1)
        self.weight = np.ascontiguousarray(by_frame.reshape(config.channels, -1))
        # (taps C', bins of the kernel times C): the weights of each frame of the kernel, one below the other.
        self.each_frame = by_frame.swapaxes(0, 1).reshape(config.kernel[1] * config.channels, -1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T, F C) frames with their context -> (B, T', F' C')."""
        batch, frames, edge = len(x), x.shape[1], self.config.kernel[0] // 2
        padded = np.zeros((batch, frames, self.bins + 2 * edge, self.inputs), np.float32)
        padded[:, :, edge : edge + self.bins] = x.reshape(batch, frames, self.bins, self.inputs)
        if self.config.stride[1] == 1 < self.config.kernel[1] and frames >= MANY * self.config.kernel[1]:
            return self._by_frame(padded)
        found = self._places(padded, self.config.kernel[1], self.config.stride[1])
        columns, block = self.weight.shape[1], found.shape[1:3]
        result = np.empty((batch, *block, self.config.channels), np.float32)
        step = max(1, COLUMNS // (batch * block[1] * columns))
        for start in range(0, block[0], step):
            part = found[:, start : start + step]
            products = linear(part.reshape(1, -1, columns), self.weight)
            result[:, start : start + step] = products.reshape(*part.shape[:3], -1)
        result += self.bias
        return clipped_relu(result).reshape(batch, block[0], -1)

    def _places(self, padded: np.ndarray, taps: int, stride: int) -> np.ndarray:
        """(B, T, F, C), frames of a kernel, frames between places -> (B, T', F', taps, its bins times C), a view."""
        batch, frames, bins, channels = padded.shape
        rows = (bins - self.height) // self.config.stride[0] + 1
        shape = batch, (frames - taps) // stride + 1, rows, taps, self.height * channels
        every, frame, bin_, value = padded.strides
        strides = every, frame * stride, bin_ * self.config.stride[0], frame, value
        return np.lib.stride_tricks.as_strided(padded, shape, strides)

    def _by_frame(self, padded: np.ndarray) -> np.ndarray:
        """(B, T, F, C) -> (B, T', F' C'): each frame times all taps, so that no frame is copied for each of them."""
        found = self._places(padded, 1, 1)
        batch, frames, rows = found.shape[:3]
        products = linear(found.reshape(1, -1, found.shape[4]), self.each_frame).reshape(batch, frames, rows, -1)
        result = np.empty((batch, frames - self.config.kernel[1] + 1, rows * self.config.channels), np.float32)
        add_frames(products, self.bias, result)
        return result


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def add_frames(products, bias, result):  # type: ignore[no-untyped-def]
    """What the taps of a kernel give of neighbouring frames is added, and clipped.

    Args:
        products: (B, T, F, taps C) float32; after them may follow what does not count.
        bias: (C,) float32.
        result: (B, T - taps + 1, F C) float32, is filled.
    """
    channels, taps = len(bias), products.shape[1] - result.shape[1] + 1
    for b in range(len(result)):
        for t in range(result.shape[1]):
            for f in range(products.shape[2]):
                own = result[b, t, f * channels : (f + 1) * channels]
                for c in range(channels):
                    own[c] = bias[c]
                for tap in range(taps):
                    added = products[b, t + tap, f, tap * channels : (tap + 1) * channels]
                    for c in range(channels):
                        own[c] += added[c]
                for c in range(channels):
                    own[c] = min(max(own[c], np.float32(0)), np.float32(CLIP))


class NativeTimeDelay:
    """A factored layer of ds2/model/time_delay.py: (B, T + k - 1, C) frames with their context -> (B, T, C')."""

    def __init__(self, inputs: int, config: ConvolutionConfig, layer: LayerWeights):
        self.config, self.first = config, (config.kernel[1] + 1) // 2
        self.second = config.kernel[1] + 1 - self.first
        scale, self.bias = layer.under("norm").scale_and_shift(config.channels)
        narrow = layer.shaped("narrow", config.bottleneck, self.first * inputs)
        self.wide = layer.shaped("wide", config.channels, self.second * config.bottleneck) * scale[:, None]
        self.bypass = np.float32(config.bypass if inputs == config.channels else 0)
        # (first M, C): what each frame of the kernel takes, one below the other: no frame is copied beside the next.
        self.each_frame = np.concatenate(np.split(narrow, self.first, axis=1))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T + k - 1, C) frames with their context -> (B, T, C')."""
        return self._widened(self._to_bottleneck(x), x, self.config.before)

    def whole(self, x: np.ndarray) -> np.ndarray:
        """(1, T, C) frames of an utterance, with zeros beyond its ends -> (1, T, C')."""
        # Zeros give zeros: the narrow products are padded, which is less to copy.
        found = np.pad(self._to_bottleneck(x), ((0, 0), (self.config.before, self.config.after), (0, 0)))
        return self._widened(found, x, 0)

    def _widened(self, found: np.ndarray, x: np.ndarray, start: int) -> np.ndarray:
        """(B, T + k - 1, first M) products of the frames -> (B, T, C'); the bypass takes x from `start` on."""
        units = self.config.bottleneck
        frames = found.shape[1] - self.first + 1
        narrow = found[:, :frames, :units]
        for frame in range(1, self.first):
            narrow = narrow + found[:, frame : frame + frames, frame * units : (frame + 1) * units]
        wide = self._from_bottleneck(places(np.ascontiguousarray(narrow), self.second))
        clip_and_add(wide, self.bias, x if self.bypass else wide, start if self.bypass else 0, self.bypass, wide)
        return wide

    def _to_bottleneck(self, x: np.ndarray) -> np.ndarray:
        """(B, T, C) -> (B, T, first M)."""
        return linear(x, self.each_frame)

    def _from_bottleneck(self, x: np.ndarray) -> np.ndarray:
        """(B, T, second M) -> (B, T, C')."""
        return linear(x, self.wide)


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def clip_and_add(x, bias, other, start, share, result):  # type: ignore[no-untyped-def]
    """result (B, T, C) = x + bias between 0 and CLIP + share * other: T frames of both, those of other from `start` on;
    (C,) bias."""
    for b in range(len(result)):
        for t in range(result.shape[1]):
            for c in range(result.shape[2]):
                clipped = min(max(x[b, t, c] + bias[c], np.float32(0)), np.float32(CLIP))
                result[b, t, c] = clipped + share * other[b, start + t, c]


def over_utterance(layer: Layer, x: np.ndarray) -> np.ndarray:
    """(1, T, D) frames of an utterance, with zeros beyond its ends -> (1, T', D'); a part of them at once, so that what
    the layer computes in between stays in a core's cache."""
    count = -(-x.shape[1] // layer.config.stride[1])
    starts = range(0, count, layer.at_once)
    found = [layer(with_context(x, layer.config, start, min(start + layer.at_once, count))) for start in starts]
    return np.concatenate(found, axis=1) if len(found) > 1 else found[0]


def with_context(x: np.ndarray, config: ConvolutionConfig, start: int, past: int) -> np.ndarray:
    """(1, T, D) frames of an utterance -> those that the outputs from `start` to `past` - 1 of a layer come from, with
    zeros beyond its ends; a view where it can be."""
    first = start * config.stride[1] - config.before
    last = (past - 1) * config.stride[1] + config.after + 1
    part = x[:, max(0, first) : last]
    if part.shape[1] == last - first:
        return part
    padded = np.zeros((1, last - first, x.shape[2]), np.float32)
    padded[:, max(0, -first) :][:, : part.shape[1]] = part
    return padded


def row_convolution(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(B, T + tau, H) with the future, (H, tau + 1) -> (B, T, H)."""
    count = x.shape[1] - weight.shape[1] + 1
    return np.asarray(sum(x[:, tap : tap + count] * weight[:, tap] for tap in range(weight.shape[1])))
