"""Connectionist temporal classification: loss and alignment of tensors."""

from ds2.ctc.loss import CTCLoss, ctc_loss

__all__ = ["CTCLoss", "ctc_loss"]
