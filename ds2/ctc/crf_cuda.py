"""CTC-CRF on the GPU: enqueues the kernels of csrc/crf.cu on torch's current stream and does not wait."""

import contextlib
import ctypes

import torch
from torch import Tensor

from ds2.ctc.trigram import END, Trigram
from ds2.utils.cuda_library import kernels_or_none, launch

INSTEAD = "CTC-CRF is computed by torch's operators, many times as slowly"


class AllPaths(ctypes.Structure):
    """`crf::AllPaths` of csrc/crf.cu, field by field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("log_probs", "lengths", "enter", "back", "after_blank", "end")),
        *((name, ctypes.c_void_p) for name in ("totals", "posteriors", "workspace")),
        *((name, ctypes.c_int64) for name in ("batch", "frames", "rows", "outputs")),
    )


class LabelPaths(ctypes.Structure):
    """`crf::LabelPaths` of csrc/crf.cu, field by field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("emitted", "silent", "again", "frames", "labels")),
        *((name, ctypes.c_void_p) for name in ("totals", "of_labels", "of_blank", "workspace")),
        *((name, ctypes.c_int64) for name in ("batch", "most_frames", "most_labels")),
    )


def crf_library(device: torch.device) -> ctypes.CDLL | None:
    """The kernels for a GPU; None elsewhere, and without nvcc, with a warning."""
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        return kernels_or_none("crf", INSTEAD)


def all_paths_fit(library: ctypes.CDLL, scores: Tensor) -> bool:
    """Whether the kernels can hold the states of scores (..., V)."""
    return bool(scores.shape[-1] <= library.ds2_all_paths_outputs())


def run_all_paths(
    library: ctypes.CDLL, log_probs: Tensor, lengths: Tensor, trigram: Trigram, differentiable: bool
) -> tuple[Tensor, Tensor | None]:
    """(B, T, 1 or V, V) float32, (B,) -> (B,) log weights of all paths, the probabilities of the outputs if wanted."""
    scores, device = log_probs.contiguous(), log_probs.device
    table = trigram.table.to(device)
    enter = table.transpose(0, 1).contiguous()  # [b, a, c]
    enter[:, :, END] = 0.0
    after_blank = enter.diagonal(dim1=0, dim2=2).contiguous()  # [a, b]: p(b | a, b)
    back = enter.permute(2, 1, 0).contiguous()  # [c, a, b]
    back.diagonal(dim1=0, dim2=2).zero_()
    end = table[:, :, END].contiguous()
    counts = lengths.to(device, torch.int64).contiguous()
    totals = scores.new_empty(len(scores))
    posteriors = torch.zeros_like(scores) if differentiable else None
    tensors = scores, counts, enter, back, after_blank, end, totals, posteriors
    arguments = AllPaths(*map(_address, tensors), None, *scores.shape)
    _launch(library, "ds2_all_paths", arguments, scores)
    return totals, posteriors


def run_label_paths(
    library: ctypes.CDLL,
    emitted: Tensor,
    silent: Tensor,
    again: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    differentiable: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """(B, T, L) log weights of the labels at their places, (B, T) of the blank, (B, L) whether a label needs a blank
    before it, (B,), (B,) -> (B,) nats, and their gradients with respect to both weights if wanted."""
    emitted, silent = emitted.contiguous(), silent.contiguous()
    flags = again.contiguous().view(torch.uint8)
    frames, labels = (each.to(emitted.device, torch.int64).contiguous() for each in (input_lengths, target_lengths))
    totals = emitted.new_empty(len(emitted))
    of_labels, of_blank = (torch.zeros_like(each) if differentiable else None for each in (emitted, silent))
    tensors = emitted, silent, flags, frames, labels, totals, of_labels, of_blank
    arguments = LabelPaths(*map(_address, tensors), None, *emitted.shape)
    _launch(library, "ds2_label_paths", arguments, emitted)
    return totals, of_labels, of_blank


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _launch(library: ctypes.CDLL, name: str, arguments: ctypes.Structure, scores: Tensor) -> None:
    on_gpu = scores.is_cuda
    with torch.cuda.device(scores.device) if on_gpu else contextlib.nullcontext():
        launch(library, name, arguments, scores.device, torch.cuda.current_stream().cuda_stream if on_gpu else 0)
