"""Bundles whose weights can be computed with: NaN would go through a whole training, and into its result."""

from pathlib import Path

from ds2.bundle import Bundle
from ds2.utils.errors import InputError

LARGEST = 1e18  # of a weight: float32 holds its square


def load_finite(path: str | Path) -> Bundle:
    """The bundle, read as `Bundle.load` reads it.

    Raises:
        InputError: as `Bundle.load`; a weight is NaN, infinite or beyond LARGEST.
    """
    bundle = Bundle.load(path)
    for name, tensor in bundle.weights.items():
        usable = tensor.double().abs() <= LARGEST  # False for NaN
        if not usable.all():
            worst = tensor[~usable].flatten()[0].item()
            raise InputError(f"{path}: {name} holds {worst:g}, which cannot be computed with; copy or train it again")
    return bundle
