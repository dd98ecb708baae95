"""Factored time-delay layers in 8 bits, for processors that multiply bytes: four times as fast as in float32.

    frames -> 8 bits, a scale for each  --narrow-->  16 bits, a scale for each  --wide-->  clipped ReLU, bypass

Weights have 8 bits. The scale is that of the frame alone, so a live stream gives what the whole recording gives, but
for roundings of features that differ in their last digit.
"""

import numpy as np

from ds2.model.native.layers import NativeTimeDelay, clip_and_add, with_context
from ds2.utils.byte_products import ByteWeight, convolved, rounded, worth_it

TINY = 1e-6  # so that a unit that adds nothing is divided by no zero


class ByteTimeDelay:
    """What a `NativeTimeDelay` computes of frames that are at least 0."""

    at_once = 256

    def __init__(self, layer: NativeTimeDelay):
        self.config, self.bias, self.bypass = layer.config, layer.bias, layer.bypass
        self.reach = layer.first + layer.second - 2
        # A unit of the bottleneck is as large as what it adds, so that all are rounded to what matters.
        units = layer.config.bottleneck
        size = np.sqrt((layer.wide.reshape(-1, units) ** 2).mean(0)) + np.float32(TINY)
        self.narrow = [ByteWeight.of(each, signed=False) for each in _of_each_frame(layer) * size[:, None]]
        wide = layer.wide / np.tile(size, layer.second)
        self.wide = [ByteWeight.of(each, signed=True) for each in _taps(wide, layer.second)]
        self.nothing, self.without_bias = np.zeros(units, np.float32), np.zeros_like(self.bias)

    @classmethod
    def fits(cls, layer: NativeTimeDelay) -> bool:
        """Whether this processor is faster so."""
        return all(map(worth_it, [*_of_each_frame(layer), *_taps(layer.wide, layer.second)]))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T + k - 1, C) frames with their context, at least 0 -> (B, T, C')."""
        result = np.empty((len(x), x.shape[1] - self.reach, self.config.channels), np.float32)
        self._fill(result, x, x, self.config.before)
        return result

    def whole(self, x: np.ndarray) -> np.ndarray:
        """(1, T, C) frames of an utterance, at least 0, with zeros beyond its ends -> (1, T, C')."""
        frames = x.shape[1]
        result = np.empty((1, frames, self.config.channels), np.float32)
        for start in range(0, frames, self.at_once):
            past = min(start + self.at_once, frames)
            self._fill(result[:, start:past], with_context(x, self.config, start, past), x, start)
        return result

    def _fill(self, result: np.ndarray, part: np.ndarray, x: np.ndarray, start: int) -> None:
        """(B, T, C') of a (B, T + k - 1, C) part; the bypass takes (B, .., C) x from `start` on."""
        batch, frames, width = part.shape
        # The utterances lie one behind the other; what the last frames of one get from the next is left out at the end.
        narrow = convolved(rounded(part.reshape(-1, width), signed=False), self.narrow, self.nothing)
        wide = convolved(rounded(narrow, signed=True, fine=True), self.wide, self.without_bias)
        wide = wide.reshape(batch, frames, -1)
        clip_and_add(wide, self.bias, x if self.bypass else wide, start if self.bypass else 0, self.bypass, result)


def _of_each_frame(layer: NativeTimeDelay) -> np.ndarray:
    """(taps, M, K) of the first factor."""
    return layer.each_frame.reshape(layer.first, layer.config.bottleneck, -1)


def _taps(weight: np.ndarray, taps: int) -> np.ndarray:
    """(M, taps K) -> (taps, M, K)."""
    return weight.reshape(len(weight), taps, -1).swapaxes(0, 1)
