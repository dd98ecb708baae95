"""The scores of biphones as ds2/model/biphones.py defines them."""

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.native.layers import linear


class NativeBiphones:
    """Scores of every phone, and of the space, after every other one."""

    def __init__(self, width: int, units: int, phones: int, layer: LayerWeights):
        self.labels = phones - 1
        self.narrow = layer.shaped("narrow.weight", units, width)
        output = layer.under("output")
        self.output = output.shaped("weight", self.labels**2, units), output.shaped("bias", self.labels**2)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(B, T, H) -> (B, T, Q) nats, at most 0."""
        scores = linear(linear(x, self.narrow), *self.output)
        pairs = scores.reshape(*x.shape[:2], self.labels, self.labels)
        pairs -= pairs.max(2, keepdims=True)
        return scores
