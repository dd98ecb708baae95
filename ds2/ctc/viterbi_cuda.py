"""The best path on the GPU, by the kernels of csrc/viterbi.cu."""

import contextlib
import ctypes

import numpy as np
import torch
from torch import Tensor

from ds2.ctc.viterbi_cpu import best_path
from ds2.utils.cuda_library import kernels_or_none, launch

BLOCK = 1024  # frames, as many as the kernels take: an hour keeps 90 columns of the trellis


class ViterbiArguments(ctypes.Structure):
    """`viterbi::Arguments` of csrc/viterbi.cu, field by field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("log_probs", "labels", "path", "score", "workspace")),
        *((name, ctypes.c_int64) for name in ("frames", "outputs", "count", "blank", "block")),
    )


def best_path_on_cuda(log_probs: Tensor, labels: np.ndarray, blank: int) -> tuple[np.ndarray, float]:
    """Like `viterbi_cpu.best_path`, for (T, V) scores on a GPU.

    Falls back to the CPU without nvcc, with a warning, and where the GPU's memory runs out.
    """
    with torch.cuda.device(log_probs.device):
        library = kernels_or_none("viterbi", "alignments are computed on the CPU")
        if library is not None and len(log_probs):
            with contextlib.suppress(torch.OutOfMemoryError):  # ten hours of speech take 8 GB
                return run_viterbi_kernels(library, log_probs, labels, blank, torch.cuda.current_stream().cuda_stream)
        return best_path(log_probs.cpu().numpy(), labels, blank)


def run_viterbi_kernels(
    library: ctypes.CDLL, log_probs: Tensor, labels: np.ndarray, blank: int, stream: int = 0, block: int = BLOCK
) -> tuple[np.ndarray, float]:
    """Like `viterbi_cpu.best_path`, for (T, V) of one frame or more, with the given library of kernels.

    Args:
        block: frames between kept columns, 1 to 1024.
    """
    assert 1 <= block <= BLOCK
    device, (frames, outputs) = log_probs.device, log_probs.shape
    targets = torch.from_numpy(labels.astype(np.int64)).to(device)
    path = torch.empty(frames, dtype=torch.int64, device=device)
    score = torch.empty(1, dtype=torch.float64, device=device)
    arguments = ViterbiArguments(
        log_probs.data_ptr(), targets.data_ptr(), path.data_ptr(), score.data_ptr(), None,
        frames, outputs, len(labels), blank, block,
    )  # fmt: skip
    launch(library, "ds2_viterbi", arguments, device, stream)
    return path.cpu().numpy(), score.item()
