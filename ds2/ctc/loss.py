"""The CTC loss (Graves et al. 2006): -log of the summed probability of all alignments of the targets."""

from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["none", "sum", "mean"]


def ctc_loss(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Loss of each utterance, differentiable with respect to the logits.

    Args:
        logits: (B, T, V) unnormalised scores, or log-probabilities (log-softmax leaves those as they are).
        targets: (B, L) padded, or (sum of target_lengths,) concatenated; no blank among them.
        input_lengths: (B,) frames of each utterance.
        target_lengths: (B,) labels of each utterance, 0 allowed.
        blank: index of the blank.
        reduction: "none" gives (B,) nats; "sum" their sum; "mean" the average over utterances of nats per label.
        zero_infinity: targets that do not fit into their frames cost 0 with gradient 0, in place of infinity.

    Raises:
        ValueError: shapes, lengths or labels that do not fit each other.
    """
    _check(logits, targets, input_lengths, target_lengths, blank)
    if logits.shape[0] == 0:
        return logits.sum((1, 2)) if reduction == "none" else logits.sum()
    log_probs = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    log_probs = torch.log_softmax(log_probs, dim=2).transpose(0, 1)
    return torch.nn.functional.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
    )


def required_frames(targets: Tensor, target_lengths: Tensor) -> Tensor:
    """(B, L) padded targets, (B,) -> (B,) fewest frames that hold them: one a label, one blank between equal labels."""
    if targets.shape[1] < 2:
        return target_lengths
    inside = torch.arange(1, targets.shape[1], device=targets.device) < target_lengths.unsqueeze(1)
    return target_lengths + ((targets[:, 1:] == targets[:, :-1]) & inside).sum(1)


def _check(logits: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> None:
    if logits.dim() != 3:
        raise ValueError(f"logits must be (B, T, V), got {tuple(logits.shape)}")
    batch, frames, outputs = logits.shape
    if not 0 <= blank < outputs:
        raise ValueError(f"blank {blank} must be one of the {outputs} outputs")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if lengths.shape != (batch,):
            raise ValueError(f"{name} must be ({batch},) as the logits' batch, got {tuple(lengths.shape)}")
    if batch == 0:
        return
    if int(input_lengths.max()) > frames or int(input_lengths.min()) < 0:
        raise ValueError(f"input_lengths must be 0..{frames}, got {input_lengths.tolist()}")
    labels = _labels(targets, target_lengths)
    if labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= outputs or bool((labels == blank).any())):
        raise ValueError(f"targets must be 0..{outputs - 1} without the blank {blank}, got {labels.unique().tolist()}")


def _labels(targets: Tensor, target_lengths: Tensor) -> Tensor:
    """The labels of all utterances in one row, padding left out."""
    if targets.dim() == 1:
        if targets.numel() != int(target_lengths.sum()):
            raise ValueError(
                f"{targets.numel()} concatenated targets, but target_lengths sum to {target_lengths.sum()}"
            )
        return targets
    if targets.dim() != 2 or int(target_lengths.max()) > targets.shape[1] or int(target_lengths.min()) < 0:
        raise ValueError(f"targets {tuple(targets.shape)} do not hold target_lengths {target_lengths.tolist()}")
    return targets[torch.arange(targets.shape[1], device=targets.device) < target_lengths.unsqueeze(1)]
