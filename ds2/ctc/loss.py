"""The CTC loss (Graves et al. 2006): -log of the summed probability of all alignments of the targets.

Log-softmax, loss and the gradient with respect to the logits are one operator. The gradient,

    d loss / d logits[t, v] = softmax(logits[t])[v] - P(output v at frame t | targets),

is computed in the forward pass, with the weights that the reduction implies. The backward pass returns it, or
multiplies it where something other than the loss itself is differentiated.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from ds2.ctc.loss_inputs import LossInputs
from ds2.text import BLANK

SCHEMA = (
    "(Tensor logits, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor weights, SymInt blank, "
    "bool differentiable) -> (Tensor, Tensor)"
)
Reduction = Literal["none", "sum", "mean"]


def ctc_loss(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = BLANK,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Loss of each utterance, differentiable (once) with respect to the logits; the same bits on every run.

    Args:
        logits: (B, T, V) unnormalised scores, or log-probabilities (log-softmax leaves those as they are); float16,
            bfloat16 and float32 are computed in float32 at least, float64 in float64. Any layout; (B, T, V) and
            (T, B, V) in memory are not copied.
        targets: (B, L) padded, or (sum of target_lengths,) concatenated; no blank among them.
        input_lengths: (B,) frames of each utterance.
        target_lengths: (B,) labels of each utterance, 0 allowed.
        blank: index of the blank.
        reduction: "none" gives (B,) nats; "sum" their sum; "mean" the average over utterances of nats per label.
        zero_infinity: where targets do not fit into their frames the loss is 0 instead of infinity. The gradient is 0
            in both cases.

    Raises:
        ValueError: shapes, lengths or labels do not fit each other. On a GPU lengths and labels are not checked, since
            the host would have to wait: an utterance with wrong ones has the loss NaN. Targets that may be longer than
            4,095 labels, according to the shapes, are computed on the CPU.
    """
    _check_shapes(logits, targets, input_lengths, target_lengths, blank)
    batch = logits.shape[0]
    if logits.dtype in (torch.float16, torch.bfloat16) and not logits.is_cuda:
        logits = logits.float()
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    if reduction == "mean":
        weights = (max(batch, 1) * target_lengths.to(logits.device, kind).clamp(min=1)).reciprocal()
    else:
        weights = torch.ones(batch, dtype=kind, device=logits.device)
    differentiable = torch.is_grad_enabled() and logits.requires_grad
    losses, _ = _ctc(logits, targets, input_lengths, target_lengths, weights, blank, differentiable)
    if zero_infinity:
        losses = losses.where(losses != torch.inf, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else (losses * weights).sum()


class CTCLoss(torch.nn.Module):
    """`ctc_loss` as a module, with the arguments of `torch.nn.CTCLoss`.

    Unlike torch's it takes logits (B, T, V), batch first, and computes the log-softmax itself.
    """

    def __init__(self, blank: int = BLANK, reduction: Reduction = "mean", zero_infinity: bool = False):
        """Arguments as in `ctc_loss`."""
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, logits: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """(B, T, V) logits, (B, L) targets, (B,) frames, (B,) labels -> nats; errors as in `ctc_loss`."""
        return ctc_loss(logits, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)


def required_frames(targets: Tensor, target_lengths: Tensor) -> Tensor:
    """(B, L) padded targets, (B,) -> (B,) fewest frames that hold them: one a label, one blank between equal labels."""
    if targets.shape[1] < 2:
        return target_lengths
    inside = torch.arange(1, targets.shape[1], device=targets.device) < target_lengths.unsqueeze(1)
    return target_lengths + ((targets[:, 1:] == targets[:, :-1]) & inside).sum(1)


@torch.library.custom_op("ds2::ctc", mutates_args=(), device_types="cpu", schema=SCHEMA)
def _ctc(*inputs: Any) -> tuple[Tensor, Tensor]:
    """(B,) losses, and weights[b] times their gradients as `logits` (empty unless differentiable).

    The gradients belong to the operator: on a GPU the backward pass changes them in place.
    """
    from ds2.ctc.cpu import ctc_on_cpu

    return ctc_on_cpu(LossInputs(*inputs))


@_ctc.register_kernel("cuda")
def _(*inputs: Any) -> tuple[Tensor, Tensor]:
    from ds2.ctc.cuda import ctc_on_cuda

    return ctc_on_cuda(LossInputs(*inputs))


@_ctc.register_fake
def _(*inputs: Any) -> tuple[Tensor, Tensor]:
    logits, *_, differentiable = inputs
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    gradient = torch.empty_like(logits) if differentiable else logits.new_empty(0)
    return logits.new_empty(logits.shape[0], dtype=kind), gradient


def _setup_context(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)  # or zeros as large as the logits would be made for the second output
    ctx.save_for_backward(output[1], LossInputs(*inputs).weights)


def _backward(ctx: Any, grad_losses: Tensor | None, grad_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    none = (None,) * 6  # gradients of the other inputs
    if grad_losses is None:
        return None, *none
    gradient, weights = ctx.saved_tensors
    weights = weights.to(grad_losses.device, grad_losses.dtype).contiguous()
    if has_values(grad_losses):
        if grad_losses.is_cuda and not backward_runs_again():
            from ds2.ctc.cuda import rescale_on_cuda

            return rescale_on_cuda(gradient, weights, grad_losses), *none
        if not grad_losses.is_cuda and torch.equal(grad_losses, weights):  # not on a GPU: the host would wait
            return gradient, *none
    gradient = gradient * (grad_losses / weights)[:, None, None].to(gradient.dtype)
    return gradient, *none


def has_values(tensor: Tensor) -> bool:
    """(...) -> False while the tensor is traced, and for a batch that looks like one tensor (`is_grads_batched`)."""
    functorch = torch._C._functorch
    return type(tensor) is Tensor and not (
        functorch.is_batchedtensor(tensor) or functorch.is_legacy_batchedtensor(tensor)
    )


def backward_runs_again() -> bool:
    """Whether the backward pass that is running keeps its graph, for another one. Only valid within one."""
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())


_ctc.register_autograd(_backward, setup_context=_setup_context)


@_ctc.register_vmap
def _(info: Any, in_dims: tuple, *inputs: Any) -> None:
    raise ValueError(
        "ctc_loss takes a whole batch, (B, T, V), and does not support torch.func.vmap: merge the dimensions"
    )


def _check_shapes(logits: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> None:
    if logits.dim() != 3:
        raise ValueError(f"logits must be (B, T, V), got {tuple(logits.shape)}")
    batch, _, outputs = logits.shape
    if not 0 <= blank < outputs:
        raise ValueError(f"blank {blank} must be one of the {outputs} outputs")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if lengths.shape != (batch,):
            raise ValueError(f"{name} must be ({batch},) as the logits' batch, got {tuple(lengths.shape)}")
    if targets.dim() not in (1, 2) or (targets.dim() == 2 and targets.shape[0] != batch):
        raise ValueError(f"targets must be ({batch}, L) or concatenated, got {tuple(targets.shape)}")
