"""What runs an acoustic model, behind one small interface of NumPy's arrays.

    Recognizer, LiveStream, the server's workers -> Engine -> native_engine.py (NumPy and numba), torch_engine.py,
                                                              onnx_engine.py (onnxruntime)

An engine's module is imported only where that engine runs, so that its package may be missing.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from ds2.bundle import Bundle
from ds2.model.config import LEAST_WEIGHTS, ModelConfig, Precision
from ds2.model_record import Record
from ds2.recognition.options import EngineName, OfflinePrecision
from ds2.utils.byte_products import multiplies_bytes
from ds2.utils.devices import may_have_gpu
from ds2.utils.errors import ParameterError
from ds2.utils.extras import need

ChosenEngine = Literal["native", "torch", "onnx"]

ONNX_SUFFIX = ".onnx"


class Slots(Protocol):
    """Live streams, each in a slot that keeps its state; see ds2/model/slots.py."""

    config: ModelConfig
    slots: int

    def advance(self, slots: np.ndarray, positions: np.ndarray, lengths: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """`SlotModel.step` with arrays -> (B, q / stride, V) log_probs, with phones (B, q / stride, V + P + Q)."""


class Engine(Protocol):
    """A loaded acoustic model."""

    config: ModelConfig

    @property
    def device(self) -> Any:
        """Where it runs; its `type` is "cpu" or "cuda"."""

    def log_probs(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """(N,) samples of each utterance -> (T, V + P + Q) log-probabilities of tokens, then, as far as the model has
        them, those of phones and the scores of biphones."""

    def slots(self, slots: int, precision: Precision = "auto", phones: bool = False) -> Slots:
        """Places for live streams in batches; with `phones`, what `log_probs` gives for phones and biphones follows.

        Raises:
            ValueError: the model cannot stream.
            InputError: the engine lacks this precision.
        """


def load_engine(
    path: str | Path, name: EngineName, device: str, precision: Precision = "float32", live: bool = False
) -> tuple[Engine, Record]:
    """Reads a bundle, once, or for onnx also an exported model.onnx -> the engine that runs it, its record.

    Args:
        name: as in `choose_engine`; an exported model is onnx's.
        precision: float32 or int8; with `live` that of the slots, as in `served_precision`.

    Raises:
        InputError: missing or damaged file, or weights that do not fit their configuration.
        ParameterError: the device is not there, or the engine, the device or the model has no such precision.
        ModuleNotFoundError: the engine's package is not installed.
    """
    if not live and precision not in get_args(OfflinePrecision):
        raise ParameterError("precision", f"{precision!r}: must be one of {', '.join(get_args(OfflinePrecision))}")
    if Path(path).suffix == ONNX_SUFFIX and name in ("auto", "onnx"):
        need("onnxruntime")
        _check_cpu("onnx", device, "float32" if live else precision)
        from ds2.recognition.onnx_engine import load_exported

        return load_exported(Path(path))
    bundle = Bundle.load(path, "numpy")
    config = ModelConfig.of(bundle)
    chosen = choose_engine(name, config, device, precision)
    fitting = served_precision(chosen, config, precision) if live else precision
    if precision == "int8" and chosen == "native" and not (live or config.recurrent_layers or multiplies_bytes()):
        raise ParameterError("precision", "int8: needs a processor that multiplies bytes (AVX-512 VNNI)")
    return _make_engine(chosen, bundle, str(path), device, fitting), bundle


def choose_engine(
    name: EngineName, config: ModelConfig, device: str = "auto", precision: Precision = "float32"
) -> ChosenEngine:
    """ "auto" -> native on a CPU where torch is missing or no faster; else torch.

    Raises:
        ModuleNotFoundError: the engine's package is not installed.
    """
    if name == "auto":
        name = _fastest(config, device, precision)
    if name != "native":
        need("onnxruntime" if name == "onnx" else "torch")
    return name


def _fastest(config: ModelConfig, device: str, precision: Precision) -> ChosenEngine:
    if find_spec("torch") is None:
        return "native"
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())
    in_bytes = precision == "int8" and multiplies_bytes()
    if on_cpu and precision == "int8" and not config.recurrent_layers:
        return "native"
    if not on_cpu or (precision not in ("auto", "float32") and not in_bytes):
        return "torch"
    # Large recurrent matrices are faster where torch runs a batch of utterances, or where they are in int8.
    most = 1 if in_bytes else LEAST_WEIGHTS
    return "native" if config.recurrent_weights < most else "torch"


def served_precision(name: ChosenEngine, config: ModelConfig, precision: Precision) -> OfflinePrecision:
    """The precision in which an engine is made for live streams; torch rounds the weights of its slots itself."""
    if name != "native" or precision not in ("auto", "int8"):
        return "float32"
    return "float32" if config.recurrent_layers and precision == "auto" else "int8"


def _make_engine(name: ChosenEngine, bundle: Bundle, path: str, device: str, precision: Precision) -> Engine:
    if name == "torch":
        from ds2.recognition.torch_engine import make_torch_engine

        return make_torch_engine(bundle, path, device, precision)
    _check_cpu(name, device, precision)
    if name == "native":
        from ds2.recognition.native_engine import make_native_engine

        return make_native_engine(bundle, path, precision)
    from ds2.recognition.onnx_engine import make_onnx_engine

    return make_onnx_engine(bundle, path)


def _check_cpu(name: ChosenEngine, device: str, precision: Precision) -> None:
    if name == "onnx" and precision != "float32":
        raise ParameterError("precision", f"{precision}: the engine onnx computes in float32")
    if device not in ("auto", "cpu"):
        raise ParameterError("device", f"{device!r}: the engine {name} runs on the cpu")
