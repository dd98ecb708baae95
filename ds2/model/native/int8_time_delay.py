"""Factored time-delay layers with weights of 8 bits, for live streams on processors that do not multiply bytes: a step
of few frames waits for the weights, of which these have a quarter of float32's bytes.

    frames -> 16 bits, a scale for each  --narrow-->  16 bits, a scale for each  --wide-->  clipped ReLU, bypass

The frames of a whole recording share one reading of the weights: of them float32 is as fast.
"""

import numpy as np

from ds2.model.native.layers import NativeTimeDelay
from ds2.utils.int8_linear import Int8Weight, int8_linear


class Int8TimeDelay(NativeTimeDelay):
    """What another `NativeTimeDelay` computes."""

    def __init__(self, layer: NativeTimeDelay):
        self.config, self.first, self.second = layer.config, layer.first, layer.second
        self.bias, self.bypass = layer.bias, layer.bypass
        self.narrow_weight, self.wide_weight = Int8Weight.of(layer.each_frame), Int8Weight.of(layer.wide)

    def _to_bottleneck(self, x: np.ndarray) -> np.ndarray:
        return by_int8(x, self.narrow_weight)

    def _from_bottleneck(self, x: np.ndarray) -> np.ndarray:
        return by_int8(x, self.wide_weight)


def by_int8(x: np.ndarray, weight: Int8Weight) -> np.ndarray:
    """(B, T, K), (M, K) -> (B, T, M)."""
    return int8_linear(x.reshape(-1, x.shape[2]), weight).reshape(*x.shape[:2], -1)
