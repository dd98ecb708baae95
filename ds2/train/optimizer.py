"""Optimisers and their schedules. A schedule is a function of the step: only the optimiser's state is saved."""

import math
from typing import Any

from torch import Tensor, nn, optim

from ds2.train.config import OptimizerConfig


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> optim.Optimizer:
    if config.name == "sgd":
        return optim.SGD(
            model.parameters(), config.learning_rate, config.momentum, nesterov=True, weight_decay=config.weight_decay
        )
    if config.name == "muon":
        return Muon(model, config.learning_rate, config.weight_decay)
    return optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)


class Muon(optim.Optimizer):
    """Muon for the matrices of hidden layers, AdamW for all other parameters, at one learning rate.

    A matrix moves by its momentum with all singular values made equal, scaled to the size of AdamW's updates
    (Liu et al. 2025, "Muon is scalable for LLM training", section 2.2).
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float):
        named = list(model.named_parameters())
        hidden = [value for name, value in named if is_hidden_matrix(name, value)]
        others = [value for name, value in named if not is_hidden_matrix(name, value)]
        self.parts: tuple[optim.Optimizer, ...] = (
            optim.Muon(hidden, learning_rate, weight_decay, adjust_lr_fn="match_rms_adamw"),
            optim.AdamW(others, learning_rate, weight_decay=weight_decay),
        )
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share_groups()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, saved in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(saved)
        self._share_groups()

    def _share_groups(self) -> None:
        """A learning rate that is set here is that of the parts."""
        self.param_groups = [group for part in self.parts for group in part.param_groups]


def is_hidden_matrix(name: str, value: Tensor) -> bool:
    """Whether a parameter is a product between layers; rows of a row convolution or an embedding stand on their own."""
    return value.ndim == 2 and "output." not in name and not name.startswith(("lookahead.", "embedding."))


def learning_rate(config: OptimizerConfig, step: int, steps: int, epoch: int) -> float:
    """The rate of update `step` (from 0) of `steps`, in `epoch` (from 0)."""
    if config.name == "sgd":
        return config.learning_rate / config.annealing**epoch
    warmup = max(1.0, config.warmup * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / (warmup + 1)
    return config.learning_rate * (1 + math.cos(math.pi * (step - warmup) / max(1.0, steps - warmup))) / 2
