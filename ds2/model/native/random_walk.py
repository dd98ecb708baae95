"""The random walk over frames as ds2/model/random_walk.py defines it."""

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.native.layers import log_softmax


class NativeRandomWalk:
    """Diffuses frame posteriors among neighbours within `radius` frames."""

    def __init__(self, radius: int, inputs: int, layer: LayerWeights):
        self.radius, self.project = radius, layer["project.weight"].T
        self.distance, self.offset = layer["distance"], layer["offset"]

    def __call__(self, features: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """(1, T, D) features, (1, T, V) scores -> (1, T, V) log of the diffused posteriors."""
        low = features[0] @ self.project
        distances = np.abs(self._neighbours(low) - low[:, None]) @ self.distance + self.offset
        inside = self._neighbours(np.ones((len(low), 1), bool))[..., 0]
        affinities = np.exp(log_softmax(np.where(inside, distances, np.float32(-np.inf))))
        diffused = np.einsum("tr,trv->tv", affinities, self._neighbours(np.exp(log_softmax(scores[0]))))
        return np.log(np.maximum(diffused, np.finfo(np.float32).tiny))[None]

    def _neighbours(self, x: np.ndarray) -> np.ndarray:
        """(T, D) -> (T, 2R + 1, D): of each frame those from R before to R after, 0 beyond the ends."""
        padded = np.pad(x, ((self.radius, self.radius), (0, 0)))
        return np.lib.stride_tricks.sliding_window_view(padded, 2 * self.radius + 1, 0).swapaxes(1, 2)
