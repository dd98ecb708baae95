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

    def shaped(self, name: str, *shape: int) -> np.ndarray:
        """(*shape) in float32, for a kernel that trusts the shape.

        Raises:
            InputError: the model lacks this weight, or it has another shape.
        """
        found = self[name]
        if found.shape != shape:
            sizes = f"{self.prefix}{name} is {found.shape}, not {shape}"
            raise InputError(f"the weights do not fit the bundle's own configuration: {sizes}")
        return found

    def under(self, name: str) -> "LayerWeights":
        """A layer inside this one."""
        return LayerWeights(self.weights, f"{self.prefix}{name}.")

    def scale_and_shift(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(size,) a, b such that BN(z) = a * z + b, of a layer of RunningStatistics (ds2/model/normalization.py)."""
        names = ("gamma", "beta", "mean", "variance")
        gamma, beta, mean, variance = (self.shaped(name, size) for name in names)
        scale = gamma / np.sqrt(variance + np.float32(EPSILON))
        return scale, beta - scale * mean

    def scales_and_shifts(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(S, size) a, b of each time step that training has reached, of a layer of StepBatchNorm; later steps use the
        last."""
        steps = len(self["means"])
        means, variances = self.shaped("means", steps, size), self.shaped("variances", steps, size)
        reached = 1 + int(np.flatnonzero(((means != 0) | (variances != 1)).any(1)).max(initial=0))
        scale = self.shaped("gamma", size) / np.sqrt(variances[:reached] + np.float32(EPSILON))
        return scale, -scale * means[:reached]

    def folded(self, weight: str, config: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
        """(H, D) W', (H,) b': a weight of this layer with its `norm` folded in, W' x + b' = BN(W x)."""
        values, norm = self[weight], self.under("norm")
        if not config.batch_norm:
            return values, norm.shaped("bias", len(values))
        scale, shift = norm.scale_and_shift(len(values))
        return values * scale[:, None], shift
