"""The engine of NumPy and numba: runs a bundle on the CPU. No torch."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ds2.bundle import Bundle
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import ModelConfig, Precision
from ds2.model.native.network import NativeSlots, Network
from ds2.utils.devices import Cpu, cpu_threads, one_thread_a_product
from ds2.utils.errors import InputError, ParameterError


class NativeEngine:
    """Runs a `Network`, an utterance in each of `cpu_threads()` threads."""

    device = Cpu()

    def __init__(self, network: Network):
        self.network, self.config = network, network.config

    def log_probs(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Engine`."""
        threads = min(cpu_threads(), len(batch))
        if threads < 2:
            return list(map(self.network.log_probs, batch))
        # Threads within each of the small products would mostly wait for each other.
        with one_thread_a_product(), ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self.network.log_probs, batch))

    def slots(self, slots: int, precision: Precision = "auto", phones: bool = False) -> NativeSlots:
        """See `Engine`; in the precision in which the engine was loaded."""
        if precision not in ("auto", "float32", "int8"):
            raise InputError(f"precision {precision}: the engine native computes in float32 or int8")
        return NativeSlots(self.network, slots, phones)


def make_native_engine(bundle: Bundle, name: str, precision: Precision = "float32") -> NativeEngine:
    """The engine of a bundle with NumPy's arrays; `name` stands for it in errors.

    Raises:
        InputError: the weights do not fit their configuration.
        ParameterError: the model has no int8.
    """
    config = ModelConfig.of(bundle)
    if precision == "int8" and config.recurrent_layers:
        raise ParameterError("precision", "int8: the engine native computes recurrent layers in float32")
    try:
        network = Network(config, len(bundle.tokens), LayerWeights(bundle.weights), in_bytes=precision == "int8")
    except InputError as error:
        raise InputError(f"{name}: {error}; train it again") from error
    return NativeEngine(network)
