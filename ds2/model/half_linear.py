"""A dense layer in half precision for a few streams: csrc/small_gemm.cu on a GPU, torch elsewhere."""

import ctypes

import torch
from torch import Tensor

from ds2.utils.cuda_library import call, kernels_or_none

VECTOR = 8  # halves that a lane loads at once: the inner size must be a multiple of it
MOST_STREAMS = 16  # rows of x that the kernel takes


class GemmArguments(ctypes.Structure):
    """`small_gemm::Arguments` of csrc/small_gemm.cu, field by field."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weight", "x", "bias", "y")),
        *((name, ctypes.c_int64) for name in ("rows", "inner", "columns")),
    )


def half_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + bias: (N, K) and (M, K) of one type, (M,) float32 -> (N, M) float32; sums are in float32."""
    if weight.is_cuda and weight.dtype == torch.float16 and len(x) <= MOST_STREAMS and weight.shape[1] % VECTOR == 0:
        with torch.cuda.device(weight.device):
            library = kernels_or_none("small_gemm", "layers for a few streams are torch's")
            if library is not None:
                return run_kernel(library, x, weight, bias, torch.cuda.current_stream().cuda_stream)
    return torch.nn.functional.linear(x, weight).float() + bias


def run_kernel(
    library: ctypes.CDLL, x: Tensor, weight: Tensor, bias: Tensor | None, stream: int | None = None
) -> Tensor:
    """`half_linear` of (N, K) and (M, K) by the kernel, of a library for the GPU on a stream of it, or for the CPU.

    Raises:
        RuntimeError: the GPU refuses.
    """
    x, weight = x.contiguous(), weight.contiguous()
    y = torch.empty(len(x), len(weight), device=x.device)
    pointers = (weight.data_ptr(), x.data_ptr(), 0 if bias is None else bias.data_ptr(), y.data_ptr())
    arguments = GemmArguments(*pointers, len(weight), weight.shape[1], len(x))
    call(library, "ds2_small_gemm", arguments, stream)
    return y
