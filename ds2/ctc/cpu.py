"""CTC on the CPU: runs the numba kernels on as many threads as torch uses."""

import ctypes
import mmap

import numpy as np
import torch
from torch import Tensor

from ds2.ctc.cpu_utterances import ctc_utterances
from ds2.ctc.kernel_types import BatchArrays
from ds2.ctc.loss_inputs import LossInputs
from ds2.ctc.threads import run_in_threads, share_work

ROOM_SHARE = 0.13  # of the gradient's size: memory of all threads together for columns of alpha
LEAST_ROOM = 160 << 10  # bytes per thread
HUGE = 8 << 20  # bytes: larger arrays get fresh memory from the system


def ctc_on_cpu(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """(B,) losses of float32 or float64 logits (B, T, V), and weights[b] times their gradients, in the logits' layout.

    Raises:
        ValueError: lengths or labels do not fit.
    """
    _check_values(inputs)
    logits, targets, input_lengths, target_lengths, weights, blank, differentiable = inputs
    batch, frames, outputs = logits.shape
    gradient = torch.empty_like(logits) if differentiable else logits.new_empty(0)
    losses = np.zeros(batch)
    if batch:
        # The kernels walk memory by strides: scores with gaps or in another order are copied, their gradient back.
        dense = logits.stride(2) == 1 and torch.empty_like(logits).stride() == logits.stride()
        scores = logits.detach() if dense else logits.detach().contiguous()
        result = gradient if dense else torch.empty_like(scores) if differentiable else gradient
        _use_huge_pages(result)
        lengths, sizes = _integers(input_lengths), _integers(target_lengths)
        # Each thread gets its part of the memory for alpha, and utterances that are about as much work as any other's.
        threads = torch.get_num_threads()
        room = max(LEAST_ROOM, int(ROOM_SHARE * logits.nbytes / min(threads, batch))) // 8
        ends = sizes.cumsum() if targets.dim() == 1 else sizes + np.arange(batch) * targets.shape[1]
        arrays = BatchArrays(
            _flat(scores), np.arange(batch) * scores.stride(0), scores.stride(1), frames, outputs, lengths,
            _integers(targets).reshape(-1), ends - sizes, sizes, blank, weights.double().numpy(), losses, _flat(result),
        )  # fmt: skip
        run_in_threads(
            lambda order: ctc_utterances(order, arrays, room), share_work(lengths * (outputs + 8 * sizes), threads)
        )
        if differentiable and not dense:
            gradient.copy_(result)
    return torch.from_numpy(losses).to(logits.dtype), gradient


def _use_huge_pages(tensor: Tensor) -> None:
    """Asks Linux for pages of 2 MiB: with 4 KiB the first write to a large gradient would take longer than all else."""
    size = tensor.numel() * tensor.element_size()
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = tensor.data_ptr() + size - start
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)


def _flat(tensor: Tensor) -> np.ndarray:
    """The elements of a dense tensor in the order of memory."""
    return tensor.as_strided((tensor.numel(),), (1,)).numpy()


def _integers(tensor: Tensor) -> np.ndarray:
    return tensor.to(torch.int64).contiguous().numpy()


def _check_values(inputs: LossInputs) -> None:
    logits, targets, input_lengths, target_lengths, _, blank, _ = inputs
    batch, frames, outputs = logits.shape
    if batch == 0:
        return
    if int(input_lengths.max()) > frames or int(input_lengths.min()) < 0:
        raise ValueError(f"input_lengths must be 0..{frames}, got {input_lengths.tolist()}")
    labels = _labels(targets, target_lengths)
    if labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= outputs or bool((labels == blank).any())):
        raise ValueError(f"targets must be 0..{outputs - 1} without the blank {blank}, got {labels.unique().tolist()}")


def _labels(targets: Tensor, target_lengths: Tensor) -> Tensor:
    """The labels of all utterances in one row, without padding."""
    if int(target_lengths.min()) < 0:
        raise ValueError(f"target_lengths must be 0 or more, got {target_lengths.tolist()}")
    if targets.dim() == 1:
        if targets.numel() != int(target_lengths.sum()):
            raise ValueError(
                f"{targets.numel()} concatenated targets, but target_lengths sum to {target_lengths.sum()}"
            )
        return targets
    if int(target_lengths.max()) > targets.shape[1]:
        raise ValueError(f"targets {tuple(targets.shape)} do not hold target_lengths {target_lengths.tolist()}")
    return targets[torch.arange(targets.shape[1]) < target_lengths.unsqueeze(1)]
