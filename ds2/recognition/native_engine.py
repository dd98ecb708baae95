"""The engine of NumPy and numba: runs a bundle on the CPU. No torch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ds2.bundle import Bundle
from ds2.model.config import ModelConfig, Precision
from ds2.model.layer_weights import LayerWeights
from ds2.model.native.network import NativeSlots, Network
from ds2.utils.devices import Cpu
from ds2.utils.errors import InputError


class NativeEngine:
    """Runs a `Network`, an utterance at a time."""

    device = Cpu()

    def __init__(self, network: Network):
        self.network, self.config = network, network.config

    def log_probs(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Engine`."""
        return [self.network.log_probs(samples) for samples in batch]

    def slots(self, slots: int, precision: Precision = "auto", phones: bool = False) -> NativeSlots:
        """See `Engine`."""
        if precision not in ("auto", "float32"):
            raise InputError(f"precision {precision}: the engine native computes in float32")
        return NativeSlots(self.network, slots, phones)


def load_native(path: str | Path) -> tuple[NativeEngine, Bundle]:
    """See `load_engine`."""
    bundle = Bundle.load(path, "numpy")
    try:
        network = Network(ModelConfig.of(bundle), len(bundle.tokens), LayerWeights(bundle.weights))
    except InputError as error:
        raise InputError(f"{path}: {error}; train it again") from error
    return NativeEngine(network), bundle
