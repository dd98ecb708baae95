"""Optimisers and their schedules. A schedule is a function of the step: only the optimiser's state is saved."""

import math

from torch import nn, optim

from ds2.train.config import OptimizerConfig


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> optim.Optimizer:
    if config.name == "sgd":
        return optim.SGD(
            model.parameters(), config.learning_rate, config.momentum, nesterov=True, weight_decay=config.weight_decay
        )
    return optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)


def learning_rate(config: OptimizerConfig, step: int, steps: int, epoch: int) -> float:
    """The rate of update `step` (from 0) of `steps`, in `epoch` (from 0)."""
    if config.name == "sgd":
        return config.learning_rate / config.annealing**epoch
    warmup = max(1.0, config.warmup * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / (warmup + 1)
    return config.learning_rate * (1 + math.cos(math.pi * (step - warmup) / max(1.0, steps - warmup))) / 2
