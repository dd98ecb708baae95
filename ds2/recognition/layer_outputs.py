"""The output of an inner layer of the acoustic model: features for other tasks, such as telling speakers apart."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from ds2.model.acoustic import AcousticModel
from ds2.recognition.batches import Batches
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.torch_engine import TorchEngine
from ds2.recognition.windows import JoinedWindows, Result, Source, Window
from ds2.utils.errors import ParameterError

STACKS = ("convolutions", "recurrent")


def layer_names(recognizer: Recognizer) -> list[str]:
    """The layers of a model from its input to its output: "frontend", "convolutions.0", ..., "recurrent.0", ..."""
    model = _module(recognizer)
    stacks = [f"{stack}.{number}" for stack in STACKS for number in range(len(getattr(model, stack)))]
    later = [name for name in ("lookahead", "fully_connected") if getattr(model, name) is not None]
    return ["frontend", *stacks, *later, "output"]


class LayerOutputs:
    """Recordings in, (T, D) outputs of a layer out; T frames, which are as long as the layer's strides make them."""

    def __init__(self, recognizer: Recognizer, layer: str):
        """`layer` is one of `layer_names`; "convolutions" and "recurrent" stand for the last of these.

        Raises:
            ParameterError: there is no such layer.
        """
        names = layer_names(recognizer)
        found = [name for name in names if name == layer or (layer in STACKS and name.startswith(f"{layer}."))]
        if not found:
            raise ParameterError("layer", f"{layer}: the model has {', '.join(names)}")
        self.recognizer, self.name = recognizer, found[-1]
        strides = [convolution.stride[1] for convolution in recognizer.model.config.convolutions]
        below = 0 if self.name == "frontend" else len(strides)
        if self.name.startswith("convolutions."):
            below = int(self.name.rpartition(".")[2]) + 1
        self.rate = math.prod(strides[below:])  # frames of this layer per output frame of the model

    def of_files(self, sources: Iterable[Source]) -> Iterator[Result[Source, np.ndarray]]:
        """For each recording, in order: the source, its duration in seconds, (T, D) or what went wrong."""
        batches = Batches[Source, np.ndarray](
            self.recognizer.cutter, self.of_windows, lambda seconds: None, JoinedWindows
        )
        return batches.results(sources)

    @torch.inference_mode()
    def of_windows(self, batch: list[Window]) -> list[np.ndarray]:
        """One pass of the model over a batch of windows -> the (T, D) that count of each."""
        found: list[Tensor] = []
        module = _module(self.recognizer).get_submodule(self.name)
        hook = module.register_forward_hook(lambda module, inputs, output: found.append(_layer_rows(module, output)))
        try:
            frames = [
                len(log_probs) for log_probs in self.recognizer.log_probs([Window(each.samples) for each in batch])
            ]
        finally:
            hook.remove()
        rows = zip(batch, found[-1].float().cpu().numpy(), frames, strict=True)
        return [self._cropped(window, row[: length * self.rate]) for window, row, length in rows]

    def _cropped(self, window: Window, row: np.ndarray) -> np.ndarray:
        last = None if window.last_frame is None else window.last_frame * self.rate
        return row[window.first_frame * self.rate : last]


def _module(recognizer: Recognizer) -> AcousticModel:
    """The network itself.

    Raises:
        ParameterError: another engine than torch runs it.
    """
    if not isinstance(recognizer.model, TorchEngine):
        raise ParameterError("engine", "the layers of a model need the engine torch")
    return recognizer.model.module


def _layer_rows(module: nn.Module, output: Tensor | tuple[Tensor, ...]) -> Tensor:
    """(B, T, D) of what a layer returns: (B, C, F, T) of a convolution, (B, F, T) of the front end, (B, T, D)."""
    tensor = output if isinstance(output, Tensor) else output[0]
    if tensor.dim() == 4:
        return tensor.flatten(1, 2).transpose(1, 2)
    return tensor if isinstance(output, Tensor) else tensor.transpose(1, 2)
