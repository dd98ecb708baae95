"""One update of the weights from their gradients."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ds2.model.acoustic import AcousticModel
from ds2.train.config import TrainConfig
from ds2.train.optimizer import learning_rate, make_optimizer
from ds2.utils.errors import InputError

SKIPPED_LIMIT = 20  # updates skipped in a row: the run has diverged
NORM_MEMORY = 0.98  # decay, for each update, of the mean gradient norm that a spike is compared with


class Updater:
    """Clips the gradient, sets the learning rate, updates the weights and their moving average; skips bad gradients.

    A gradient is bad if it is not finite or its norm is a spike (`optimizer.gradient_spike`). A run does not suffer
    from one update less; `SKIPPED_LIMIT` bad gradients in a row end it.
    """

    def __init__(self, model: AcousticModel, config: TrainConfig, updates: int):
        """`updates`: how many a whole run makes, for the schedule."""
        self.model = model
        self.config = config.optimizer
        self.updates = updates
        self.optimizer = make_optimizer(model, config.optimizer)
        self.scaler = torch.amp.GradScaler(
            model.output.weight.device.type, enabled=config.compute.precision == "float16"
        )
        decay = config.optimizer.ema_decay
        self.average = (
            AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True) if decay else None
        )
        self.fixed_rate: float | None = None  # replaces the schedule
        self.step = 0  # updates done or skipped
        self.skipped = 0  # in a row
        self.mean_norm = 0.0  # of gradients, since the first
        self.norm = 0.0  # of the last gradient

    @property
    def validated(self) -> AcousticModel:
        """The model that is validated and kept."""
        return self.model if self.average is None else self.average.module  # type: ignore[return-value]

    @property
    def rate(self) -> float:
        """The learning rate of the last update."""
        return float(self.optimizer.param_groups[0]["lr"])

    def update(self, epoch: int, norm: Tensor | None = None) -> bool:
        """Updates the weights by the gradients of the model; False where they were bad and the update was skipped.

        `norm`: (), that of the whole gradient, of which the model has a part.

        Raises:
            InputError: training diverged.
        """
        self.scaler.unscale_(self.optimizer)
        parameters = list(self.model.parameters())
        if norm is None:
            norm = nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
        nn.utils.clip_grads_with_norm_(parameters, self.config.clip_norm, norm)
        self.norm = float(norm)
        self.step += 1
        finite = math.isfinite(self.norm)
        limit = self.config.gradient_spike * self.mean_norm
        good = finite and not 0 < limit < self.norm
        if finite:
            self.mean_norm = NORM_MEMORY * (self.mean_norm or self.norm) + (1 - NORM_MEMORY) * self.norm
        if good:
            self._update_weights(epoch)
        else:
            self._skip()
        self.scaler.update()
        return good

    def _update_weights(self, epoch: int) -> None:
        self.skipped = 0
        rate = self.fixed_rate or learning_rate(self.config, self.step - 1, self.updates, epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)
        if self.average is not None:
            self.average.update_parameters(self.model)

    def _skip(self) -> None:
        self.skipped += 1
        if self.skipped >= SKIPPED_LIMIT:
            raise InputError(
                f"training diverged: {SKIPPED_LIMIT} gradients in a row were not finite or above "
                "optimizer.gradient_spike; lower optimizer.learning_rate or optimizer.clip_norm and start in another "
                "folder"
            )

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold: optimiser, loss scale, average, counters."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "step": self.step,
            "left_out": self.skipped,  # its name in version 0.1
            "mean_norm": self.mean_norm,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Takes over the state of a checkpoint."""
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scaler.load_state_dict(saved["scaler"])
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        self.step, self.skipped, self.mean_norm = saved["step"], saved["left_out"], saved["mean_norm"]


def parameter_gradients(model: nn.Module) -> list[Tensor]:
    """The gradients of all parameters; zeros for those that have none."""
    return [
        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in model.parameters()
    ]
