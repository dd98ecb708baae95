"""The gate of channels as ds2/model/gate.py defines it."""

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import GATE_FRAMES
from ds2.model.native.layers import linear
from ds2.utils.activations import sigmoid
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit


class NativeGate:
    """Scales the channels of a layer over one bin by what the utterance sounded like so far."""

    def __init__(self, channels: int, units: int, layer: LayerWeights):
        self.channels = channels
        self.prior = GATE_FRAMES * layer.shaped("prior", channels).astype(np.float64)
        narrow, wide = layer.under("narrow"), layer.under("wide")
        self.narrow = narrow.shaped("weight", units, channels), narrow.shaped("bias", units)
        self.wide = wide.shaped("weight", channels, units), wide.shaped("bias", channels)

    def __call__(self, x: np.ndarray, before: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Scales x in place.

        Args:
            x: (B, T, C) frames, 0 before the utterance.
            before: (B, C) sum of the frames before them, in float64.
            numbers: (B, T) of the frames within their utterance, below 0 before it.

        Returns:
            (B, C) sum of the frames so far, in float64.
        """
        sums, mean = before.copy(), np.empty(x.shape, np.float32)
        running_means(x, np.maximum(numbers, -1) + 1, self.prior, sums, mean)
        units = linear(mean, *self.narrow)
        scores = linear(np.maximum(units, np.float32(0), out=units), *self.wide)
        scale_by(scores, x)
        return sums


@njit(nogil=True, error_model="numpy", _nrt=False)
def running_means(x, frames, prior, sums, mean):  # type: ignore[no-untyped-def]
    """Means of the frames so far and of the prior.

    Args:
        x: (B, T, C) float32.
        frames: (B, T) how many there are so far.
        prior: (C,) the sum of GATE_FRAMES frames, float64.
        sums: (B, C) float64 of the frames before these; becomes that of all.
        mean: (B, T, C) float32, is filled.
    """
    for b in range(len(x)):
        total = sums[b]
        for t in range(x.shape[1]):
            row, found, share = x[b, t], mean[b, t], 1 / (frames[b, t] + GATE_FRAMES)
            for c in range(len(total)):
                total[c] += row[c]
                found[c] = (total[c] + prior[c]) * share


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def scale_by(scores, x):  # type: ignore[no-untyped-def]
    """x (B, T, C) *= 2 sigmoid(scores), both float32."""
    one, two = np.float32(1), np.float32(2)
    for b in range(len(x)):
        for t in range(x.shape[1]):
            for c in range(x.shape[2]):
                x[b, t, c] *= two * sigmoid(scores[b, t, c], one)
