"""What runs an acoustic model, behind one small interface of NumPy's arrays.

    Recognizer, LiveStream, the server's workers -> Engine -> native_engine.py (NumPy and numba), torch_engine.py,
                                                              onnx_engine.py (onnxruntime)

An engine's module is imported only where that engine runs, so that its package may be missing.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from ds2.model.config import ModelConfig, Precision
from ds2.recognition.options import EngineName, OfflinePrecision
from ds2.record import Record
from ds2.utils.errors import ParameterError
from ds2.utils.extras import need

ONNX_SUFFIX = ".onnx"


class Slots(Protocol):
    """Live streams, each in a slot that keeps its state; see ds2/model/slots.py."""

    config: ModelConfig
    slots: int

    def advance(self, slots: np.ndarray, positions: np.ndarray, lengths: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """`SlotModel.step` with arrays -> (B, q / stride, V) log_probs."""


class Engine(Protocol):
    """A loaded acoustic model."""

    config: ModelConfig

    @property
    def device(self) -> Any:
        """Where it runs; its `type` is "cpu" or "cuda"."""

    def log_probs(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """(N,) samples of each utterance -> (T, V + P) log-probabilities of tokens, then of phones if there are any."""

    def slots(self, slots: int, precision: Precision = "auto", phones: bool = False) -> Slots:
        """Places for live streams in batches; with `phones`, their log-probabilities follow those of the tokens.

        Raises:
            ValueError: the model cannot stream.
            InputError: the engine lacks this precision.
        """


def choose_engine(name: EngineName, path: str | Path) -> Literal["native", "torch", "onnx"]:
    """ "auto" -> onnx for an exported model and where torch is not installed, else torch.

    Raises:
        ModuleNotFoundError: its package is not installed.
    """
    if name == "auto":
        name = "onnx" if Path(path).suffix == ONNX_SUFFIX or find_spec("torch") is None else "torch"
        if name == "onnx" and find_spec("onnxruntime") is None:
            name = "torch"
    if name != "native":
        need("onnxruntime" if name == "onnx" else "torch")
    return name


def load_engine(
    name: Literal["native", "torch", "onnx"], path: str | Path, device: str, precision: OfflinePrecision = "float32"
) -> tuple[Engine, Record]:
    """Loads a bundle, or for onnx also an exported model.onnx -> its engine, its record.

    Raises:
        InputError: missing or damaged file, or weights that do not fit their configuration.
        ParameterError: the device is not there, or the engine, the device or the model has no such precision.
    """
    if name == "torch":
        from ds2.recognition.torch_engine import load_torch

        return load_torch(path, device, precision)
    if precision != "float32":
        raise ParameterError("precision", f"{precision}: the engine {name} computes in float32")
    if device not in ("auto", "cpu"):
        raise ParameterError("device", f"{device!r}: the engine {name} runs on the cpu")
    if name == "native":
        from ds2.recognition.native_engine import load_native

        return load_native(path)
    from ds2.recognition.onnx_engine import load_onnx

    return load_onnx(path)
