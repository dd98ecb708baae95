"""Connectionist temporal classification: loss and alignment of tensors."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ds2.ctc.loss import CTCLoss, ctc_loss

__all__ = ["CTCLoss", "ctc_loss"]


def __getattr__(name: str) -> Any:
    """Imports the loss at its first use: alignment does without torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("ds2.ctc.loss"), name)
