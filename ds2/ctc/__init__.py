"""Connectionist temporal classification. Knows tensors only."""

from ds2.ctc.loss import ctc_loss

__all__ = ["ctc_loss"]
