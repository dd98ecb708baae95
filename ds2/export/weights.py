"""The weights of a bundle by the names of their layers, batch normalisation folded in."""

from collections.abc import Mapping

import numpy as np

from ds2.model.config import EPSILON, ModelConfig
from ds2.utils.errors import InputError


class LayerWeights:
    """The weights whose names begin with that of a layer: `LayerWeights(weights, "recurrent.0.")["input_weight"]`."""

    def __init__(self, weights: Mapping[str, np.ndarray], prefix: str = ""):
        self.weights, self.prefix = weights, prefix

    def __getitem__(self, name: str) -> np.ndarray:
        """In float32.

        Raises:
            InputError: the model lacks this weight.
        """
        if self.prefix + name not in self.weights:
            raise InputError(f"the weights do not fit the bundle's own configuration: {self.prefix}{name} is missing")
        return np.asarray(self.weights[self.prefix + name]).astype(np.float32)

    def under(self, name: str) -> "LayerWeights":
        """A layer inside this one."""
        return LayerWeights(self.weights, f"{self.prefix}{name}.")

    def scale_and_shift(self) -> tuple[np.ndarray, np.ndarray]:
        """(a, b) such that BN(z) = a * z + b, of a layer of RunningStatistics (ds2/model/normalization.py)."""
        scale = self["gamma"] / np.sqrt(self["variance"] + np.float32(EPSILON))
        return scale, self["beta"] - scale * self["mean"]

    def folded(self, weight: str, config: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
        """(H, D) W', (H,) b': a weight of this layer with its `norm` folded in, W' x + b' = BN(W x)."""
        norm = self.under("norm")
        if not config.batch_norm:
            return self[weight], norm["bias"]
        scale, shift = norm.scale_and_shift()
        return self[weight] * scale[:, None], shift
