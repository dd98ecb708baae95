"""One update of the weights from the gradients that lie beside them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ds2.model.acoustic import AcousticModel
from ds2.train.config import TrainConfig
from ds2.train.optimizer import learning_rate, make_optimizer
from ds2.utils.errors import InputError

LEFT_OUT_LIMIT = 20  # updates left out in a row: the run has diverged
NORM_MEMORY = 0.98  # of the running mean of gradient norms that a surge is measured by


class Updater:
    """Clips the gradient, sets the rate, moves the weights and their moving average; leaves bad gradients out.

    A gradient is bad that is not finite, or whose norm is a surge (`optimizer.surge`). One update more or less is
    nothing to a run; `LEFT_OUT_LIMIT` bad ones in a row are its end.
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
        decay = config.optimizer.average_decay
        self.average = (
            AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True) if decay else None
        )
        self.fixed_rate: float | None = None  # in place of the schedule's
        self.step = 0  # updates done or left out
        self.left_out = 0  # in a row
        self.mean_norm = 0.0  # of gradients, since the first
        self.norm = 0.0  # of the last gradient

    @property
    def judged(self) -> AcousticModel:
        """The model that is validated and kept."""
        return self.model if self.average is None else self.average.module  # type: ignore[return-value]

    @property
    def rate(self) -> float:
        """The learning rate of the last update."""
        return float(self.optimizer.param_groups[0]["lr"])

    def update(self, epoch: int) -> bool:
        """Whether the gradient was good.

        Raises:
            InputError: training diverged.
        """
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.norm = float(norm)
        self.step += 1
        finite = bool(norm.isfinite())
        surges = self.config.surge > 0 and self.mean_norm > 0 and self.norm > self.config.surge * self.mean_norm
        if finite:
            self.mean_norm = NORM_MEMORY * (self.mean_norm or self.norm) + (1 - NORM_MEMORY) * self.norm
        if finite and not surges:
            self._move(epoch)
        else:
            self._leave_out()
        self.scaler.update()
        return finite and not surges

    def _move(self, epoch: int) -> None:
        self.left_out = 0
        rate = self.fixed_rate or learning_rate(self.config, self.step - 1, self.updates, epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)
        if self.average is not None:
            self.average.update_parameters(self.model)

    def _leave_out(self) -> None:
        self.left_out += 1
        if self.left_out >= LEFT_OUT_LIMIT:
            raise InputError(
                f"training diverged: {LEFT_OUT_LIMIT} updates in a row without a finite gradient, or with one that "
                "surges; lower optimizer.learning_rate or optimizer.clip_norm and start in another folder"
            )

    def state_dict(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            **{name: getattr(self, name) for name in ("step", "left_out", "mean_norm")},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scaler.load_state_dict(saved["scaler"])
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        for name in ("step", "left_out", "mean_norm"):
            setattr(self, name, saved[name])


def gradients(model: nn.Module) -> list[Tensor]:
    """Of all parameters; zeros for those that have none."""
    return [
        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in model.parameters()
    ]
