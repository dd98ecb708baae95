"""The scores of biphones as ds2/model/biphones.py defines them."""

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.native.layers import linear
from ds2.utils.fast_exp import REORDER
from ds2.utils.jit import njit


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
        below_the_best(scores.reshape(-1, self.labels, self.labels), np.empty(self.labels, np.float32))
        return scores


@njit(nogil=True, error_model="numpy", fastmath=REORDER, _nrt=False)
def below_the_best(pairs, best):  # type: ignore[no-untyped-def]
    """(N, K, K) float32 scores [a, b] of b after a, in place: less the best over all a; (K,) `best` is overwritten."""
    for each in pairs:
        for b in range(len(best)):
            best[b] = each[0, b]
        for row in each:
            for b in range(len(row)):
                best[b] = max(best[b], row[b])
        for row in each:
            for b in range(len(row)):
                row[b] -= best[b]
