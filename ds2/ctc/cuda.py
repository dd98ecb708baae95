"""CTC on the GPU: enqueues the kernels of csrc/ctc.cu on torch's current stream and does not wait."""

import ctypes

import torch
from torch import Tensor

from ds2.ctc.cpu import ctc_on_cpu
from ds2.ctc.loss_inputs import LossInputs
from ds2.utils.cuda_library import call, kernels_or_none, launch

TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}


class CtcArguments(ctypes.Structure):
    """`ctc::Arguments` of csrc/ctc.cu, field by field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("logits", "gradient", "targets", "target_lengths")),
        *((name, ctypes.c_void_p) for name in ("input_lengths", "weights", "losses", "workspace")),
        *((name, ctypes.c_int64) for name in ("batch", "frames", "outputs", "blank", "batch_stride", "frame_stride")),
        *((name, ctypes.c_int64) for name in ("most_labels", "targets_size", "targets_width")),
        ("type", ctypes.c_int32),
    )


class Rescaling(ctypes.Structure):
    """`ctc::Rescaling` of csrc/ctc.cu, field by field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("gradient", "weights", "wanted")),
        *((name, ctypes.c_int64) for name in ("wanted_stride", "batch", "frames", "outputs")),
        *((name, ctypes.c_int64) for name in ("batch_stride", "frame_stride")),
        ("type", ctypes.c_int32),
    )


def ctc_on_cuda(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """(B,) losses of logits (B, T, V) of any floating type, and weights[b] times their gradients, in their layout.

    Falls back to the CPU without nvcc, with a warning, and for more labels than the kernels can hold.
    """
    with torch.cuda.device(inputs.logits.device):
        library = kernels_or_none("ctc", "CTC is computed on the CPU")
        if library is None or most_labels(inputs) > library.ds2_ctc_most_labels():
            return _on_cpu(inputs)
        return run_ctc_kernels(library, inputs)


def run_ctc_kernels(library: ctypes.CDLL, inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """Like `ctc_on_cuda`, with the given library, in the memory of the logits' device."""
    logits, targets, input_lengths, target_lengths, weights, blank, differentiable = inputs
    logits = logits.detach()
    device, (batch, frames, outputs) = logits.device, logits.shape
    gradient = torch.empty_like(logits) if differentiable else logits.new_empty(0)
    # The kernels walk memory by strides: scores with gaps or in another order are copied, their gradient back.
    dense = logits.stride(2) == 1 and torch.empty_like(logits).stride() == logits.stride()
    scores = logits if dense else logits.contiguous()
    result = gradient if dense or not differentiable else torch.empty_like(scores)
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    losses = torch.empty(batch, dtype=kind, device=device)
    labels, frame_counts, label_counts = (
        tensor.to(device, torch.int64, non_blocking=True).contiguous()
        for tensor in (targets, input_lengths, target_lengths)
    )
    weights = weights.to(device, kind).contiguous()
    # The library takes one structure of addresses and sizes; it allocates its own workspace.
    arguments = CtcArguments(
        scores.data_ptr(), result.data_ptr() if differentiable else None, labels.data_ptr(),
        label_counts.data_ptr(), frame_counts.data_ptr(), weights.data_ptr(), losses.data_ptr(), None,
        batch, frames, outputs, blank, scores.stride(0), scores.stride(1),
        most_labels(inputs), labels.numel(), targets.shape[1] if targets.dim() == 2 else 0,
        TYPES[logits.dtype],
    )  # fmt: skip
    stream = torch.cuda.current_stream().cuda_stream if logits.is_cuda else 0
    launch(library, "ds2_ctc", arguments, device, stream)
    if differentiable and not dense:
        gradient.copy_(result)
    return losses, gradient


def most_labels(inputs: LossInputs) -> int:
    """Upper bound on the labels of an utterance that can be aligned; waits for no GPU."""
    logits, targets, _, target_lengths, *_ = inputs
    if target_lengths.is_cuda or not len(target_lengths):
        return min(logits.shape[1], targets.shape[-1])
    return min(logits.shape[1], targets.shape[-1], max(0, int(target_lengths.max())))


def rescale_on_cuda(gradient: Tensor, weights: Tensor, wanted: Tensor) -> Tensor:
    """Replaces the weights (B,) of a gradient (B, T, V) by the wanted ones (B,), in place if possible."""
    with torch.cuda.device(gradient.device):
        library = kernels_or_none("ctc", "the gradient is multiplied by torch")
        if library is None or gradient.stride(2) != 1:
            return gradient * (wanted / weights)[:, None, None].to(gradient.dtype)
        return run_rescale(library, gradient, weights, wanted, torch.cuda.current_stream().cuda_stream)


def run_rescale(library: ctypes.CDLL, gradient: Tensor, weights: Tensor, wanted: Tensor, stream: int = 0) -> Tensor:
    """Like `rescale_on_cuda`, (B, T, V) with contiguous outputs, by the given library of kernels, in place."""
    rescaling = Rescaling(
        gradient.data_ptr(), weights.data_ptr(), wanted.data_ptr(),
        wanted.stride(0), *gradient.shape, *gradient.stride()[:2], TYPES[gradient.dtype],
    )  # fmt: skip
    call(library, "ds2_ctc_rescale", rescaling, stream)
    return gradient


def _on_cpu(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    logits = inputs.logits
    own = LossInputs._make(value.cpu() if isinstance(value, Tensor) else value for value in inputs)
    if logits.dtype != torch.float64:
        own = own._replace(logits=own.logits.float())
    losses, gradient = ctc_on_cpu(own)
    return losses.to(logits.device), gradient.to(logits.device, logits.dtype)
