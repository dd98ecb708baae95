"""CTC on the GPU."""

from torch import Tensor

from ds2.ctc.cpu import ctc_on_cpu


def ctc_on_cuda(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    weights: Tensor,
    blank: int,
    differentiable: bool,
) -> tuple[Tensor, Tensor]:
    """As `ctc_on_cpu`, by way of the CPU."""
    rest = (targets.cpu(), input_lengths.cpu(), target_lengths.cpu(), weights.cpu(), blank, differentiable)
    losses, gradient = ctc_on_cpu(logits.cpu().float(), *rest)
    return losses.to(logits.device), gradient.to(logits.device, logits.dtype)
