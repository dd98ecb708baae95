"""Convolutions in 8 bits, for processors that multiply bytes; see byte_time_delay.py.

Each frame's windows over frequency are multiplied once, by all taps of the kernel side by side; what the taps give of
neighbouring frames is added.
"""

import numpy as np

from ds2.model.native.layers import NativeConvolution, add_frames
from ds2.utils.byte_products import ByteWeight, convolved, rounded, worth_it


class ByteConvolution:
    """What a `NativeConvolution` with a stride of one frame computes of frames that are at least 0."""

    at_once = 256

    def __init__(self, layer: NativeConvolution):
        self.config, self.bias, self.bins, self.inputs = layer.config, layer.bias, layer.bins, layer.inputs
        self.height = layer.height
        self.weight = ByteWeight.of(layer.each_frame, signed=False)
        self.nothing = np.zeros(len(self.weight.scale), np.float32)

    @classmethod
    def fits(cls, layer: NativeConvolution) -> bool:
        """Whether this processor is faster so."""
        return layer.config.stride[1] == 1 and worth_it(layer.each_frame)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T + k - 1, F C) frames with their context, at least 0 -> (B, T, F' C')."""
        batch, frames, width = x.shape
        taps, channels = self.config.kernel[1], self.config.channels
        levels, scale = rounded(x.reshape(-1, width), signed=False)
        windows = self._windows(levels)
        products = convolved(
            (windows.reshape(-1, windows.shape[2]), np.repeat(scale, windows.shape[1])), [self.weight], self.nothing
        )
        result = np.empty((batch, frames - taps + 1, windows.shape[1] * channels), np.float32)
        add_frames(products.reshape(batch, frames, windows.shape[1], -1), self.bias, result)
        return result

    def _windows(self, levels: np.ndarray) -> np.ndarray:
        """(N, F C) -> (N, F', C times the bins of the kernel)."""
        edge, step = self.config.kernel[0] // 2, self.config.stride[0]
        padded = np.zeros((len(levels), self.bins + 2 * edge, self.inputs), np.uint8)
        padded[:, edge : edge + self.bins] = levels.reshape(-1, self.bins, self.inputs)
        size, every, bin_ = self.height * self.inputs, padded.strides[0], padded.strides[1]
        count = (padded.shape[1] - self.height) // step + 1
        windows = np.lib.stride_tricks.as_strided(padded, (len(levels), count, size), (every, step * bin_, 1))
        return np.ascontiguousarray(windows)
