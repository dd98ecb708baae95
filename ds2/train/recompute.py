"""Activation checkpointing: less memory for more time, on the layers that need most memory."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ds2.model.acoustic import AcousticModel


def recompute_activations(model: AcousticModel) -> None:
    """Makes convolutions and recurrent layers drop their activations and compute them again in the backward pass."""
    for layer in (*model.convolutions, *model.recurrent):
        layer.forward = functools.partial(_forward, layer, layer.forward)


def _forward(layer: nn.Module, forward: Callable[..., Any], *inputs: Any) -> Any:
    if not (layer.training and torch.is_grad_enabled()):
        return forward(*inputs)
    contexts = lambda: (contextlib.nullcontext(), _keeping_statistics(layer))  # noqa: E731
    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts)


@contextlib.contextmanager
def _keeping_statistics(layer: nn.Module) -> Iterator[None]:
    """Restores the running statistics: the second pass must not update them again."""
    before = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in layer.named_buffers():
                buffer.copy_(before[name])
