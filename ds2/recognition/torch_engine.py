"""The engine of PyTorch."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ds2.bundle import Bundle
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ModelConfig, Precision
from ds2.model.cuda_graphs import GraphedStep
from ds2.model.int8_recurrent import in_int8
from ds2.model.slots import SlotModel
from ds2.recognition.windows import padded
from ds2.utils.devices import choose_device
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.forks import survive_forks


class TorchEngine:
    """Runs an `AcousticModel`."""

    def __init__(self, module: AcousticModel):
        survive_forks()
        self.module, self.config = module.eval(), module.config

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.module.output.weight.device

    @torch.inference_mode()
    def log_probs(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Engine`."""
        samples, lengths = (torch.from_numpy(each).to(self.device) for each in padded(batch))
        log_probs, frames = self.module.all_log_probs(samples, lengths)
        rows = zip(log_probs.cpu().numpy(), frames.tolist(), strict=True)
        return [row[:count] for row, count in rows]

    def slots(self, slots: int, precision: Precision = "auto", phones: bool = False) -> "TorchSlots":
        """See `Engine`."""
        return TorchSlots(self.module, slots, precision, phones)


class TorchSlots(SlotModel):
    """A `SlotModel`, on a GPU with CUDA graphs."""

    def __init__(self, module: AcousticModel, slots: int, precision: Precision = "auto", phones: bool = False):
        super().__init__(module, slots, precision, phones)
        self._advance = GraphedStep(self) if self.device.type == "cuda" else self.step

    def advance(self, slots: np.ndarray, positions: np.ndarray, lengths: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """See `Slots`."""
        inputs: list[Tensor] = [torch.from_numpy(each).to(self.device) for each in (slots, positions, lengths, samples)]
        found: np.ndarray = self._advance(*inputs).numpy(force=True)
        return found


def make_torch_engine(bundle: Bundle, name: str, device: str, precision: Precision = "float32") -> TorchEngine:
    """The engine of a bundle; `name` stands for it in errors.

    Raises:
        InputError: the weights do not fit their configuration.
        ParameterError: the device is not there, or int8 is asked of a model without large recurrent layers.
    """
    config = ModelConfig.of(bundle)
    try:
        with torch.device("meta"):  # shapes alone: drawing initial weights takes longer than loading the real ones
            model = AcousticModel(config, len(bundle.tokens))
        # Copies of NumPy's arrays: a file that is mapped may not be written to.
        of = {key: each if isinstance(each, Tensor) else np.array(each) for key, each in bundle.weights.items()}
        weights = {key: torch.as_tensor(each).float() for key, each in of.items()}
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise InputError(f"{name}: the weights do not fit the bundle's own configuration; train it again") from error
    model.to(choose_device(device))
    if precision == "int8":
        try:
            in_int8(model)
        except ValueError as error:
            raise ParameterError("precision", str(error)) from error
    return TorchEngine(model)
