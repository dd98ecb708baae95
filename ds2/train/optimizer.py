"""Optimisers and their schedules. A schedule is a function of the step: only the optimiser's state is saved."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn, optim

from ds2.train.config import OptimizerConfig
from ds2.utils.processor import has_bfloat16

MOMENTUM = 0.95
NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315  # Jordan et al. 2024, "Muon": five steps bring singular values near 1
STEPS = 5
RMS = 0.2  # of AdamW's updates at a learning rate of 1


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> optim.Optimizer:
    """The optimiser of a configuration, over all parameters of the model."""
    if config.name == "sgd":
        return optim.SGD(
            model.parameters(), config.learning_rate, config.momentum, nesterov=True, weight_decay=config.weight_decay
        )
    if config.name == "muon":
        return Muon(model, config.learning_rate, config.weight_decay)
    return optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)


def parts_of(optimizer: optim.Optimizer) -> tuple[optim.Optimizer, ...]:
    """The optimisers that hold the state."""
    return optimizer.parts if isinstance(optimizer, Muon) else (optimizer,)


def joined_state(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The state of an optimiser from the states of several, each with a part of the parameters."""
    if "parts" in states[0]:
        return {"parts": [joined_state(parts) for parts in zip(*(state["parts"] for state in states), strict=True)]}
    return {**states[0], "state": {key: value for state in states for key, value in state["state"].items()}}


class Muon(optim.Optimizer):
    """Orthogonal updates for the matrices of hidden layers, AdamW for all other parameters.

    One learning rate does for both, since the matrices' updates are scaled to the size of AdamW's (Liu et al. 2025,
    "Muon is scalable for LLM training", section 2.2).
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float):
        named = list(model.named_parameters())
        hidden = [value for name, value in named if is_hidden_matrix(name, value)]
        others = [value for name, value in named if not is_hidden_matrix(name, value)]
        self.parts: tuple[optim.Optimizer, ...] = (
            OrthogonalMomentum(hidden, {"lr": learning_rate, "weight_decay": weight_decay}),
            optim.AdamW(others, learning_rate, weight_decay=weight_decay, fused=True),
        )
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share_groups()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates all parameters from their gradients."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """The state of both parts."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the state of both parts."""
        for part, saved in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(saved)
        self._share_groups()

    def _share_groups(self) -> None:
        """A learning rate that is set here is that of the parts."""
        self.param_groups = [group for part in self.parts for group in part.param_groups]


class OrthogonalMomentum(optim.Optimizer):
    """A matrix moves by its Nesterov momentum with all singular values made nearly equal.

    `torch.optim.Muon` computes the same in bfloat16 on all processors, four times as slow on those that lack it.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates all matrices from their gradients."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                if not self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
                momentum = self.state[weight]["momentum_buffer"].lerp_(weight.grad, 1 - MOMENTUM)
                size = RMS * math.sqrt(max(weight.shape))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(orthogonal(weight.grad.lerp(momentum, MOMENTUM)), alpha=-group["lr"] * size)


def orthogonal(matrix: Tensor) -> Tensor:
    """(N, M) -> (N, M): its singular values, as far as they are not tiny, brought to about 0.7 to 1.2."""
    tall = len(matrix) > matrix.shape[1]
    fast = matrix.is_cuda or has_bfloat16()
    x = (matrix.T if tall else matrix).to(torch.bfloat16 if fast else torch.float32)
    x = x / x.norm().clamp(min=1e-7)
    linear, cubic, quintic = NEWTON_SCHULZ
    for _ in range(STEPS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=cubic, alpha=quintic), x, beta=linear)
    return (x.T if tall else x).to(matrix.dtype)


def is_hidden_matrix(name: str, value: Tensor) -> bool:
    """Whether a parameter, (...), is a product between layers, (N, M).

    Rows of a row convolution or an embedding stand on their own.
    """
    return value.ndim == 2 and "output." not in name and not name.startswith(("lookahead.", "embedding."))


def learning_rate(config: OptimizerConfig, step: int, steps: int, epoch: int) -> float:
    """The rate of update `step` (from 0) of `steps`, in `epoch` (from 0)."""
    if config.name == "sgd":
        return config.learning_rate / config.annealing**epoch
    warmup = max(1.0, config.warmup * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / (warmup + 1)
    return config.learning_rate * (1 + math.cos(math.pi * (step - warmup) / max(1.0, steps - warmup))) / 2
