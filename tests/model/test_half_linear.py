"""csrc/small_gemm.cu: run on the CPU by tests/helpers/emulator.h, compiled by nvcc, run on a GPU."""

import ctypes
from pathlib import Path

import pytest
import torch
from helpers.kernels import compiled_by_nvcc, emulate, needs_gpu, needs_nvcc
from torch import Tensor

from ds2.model.half_linear import MOST_STREAMS, half_linear, run_kernel


@pytest.fixture(scope="module")
def emulated() -> ctypes.CDLL:
    return emulate("small_gemm")


def operands(streams: int, rows: int, inner: int, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(streams + rows + inner)
    x, weight = (torch.randn(size, inner, generator=generator).half() for size in (streams, rows))
    return x.to(device), weight.to(device), torch.randn(rows, generator=generator).to(device)


def exact(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x.double() @ weight.double().T + bias.double()).float()


def test_the_smallest_product(emulated: ctypes.CDLL) -> None:
    x = torch.tensor([[1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]]).half()
    weight = torch.tensor([[1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0, 0.5]]).half()
    assert run_kernel(emulated, x, weight, None).tolist() == [[4.5]]


@pytest.mark.parametrize("streams", range(1, MOST_STREAMS + 1))
def test_every_number_of_streams(emulated: ctypes.CDLL, streams: int) -> None:
    x, weight, bias = operands(streams, 20, 264)
    assert torch.allclose(run_kernel(emulated, x, weight, bias), exact(x, weight, bias), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "inner"), [(1, 8), (15, 1024), (16, 1032), (17, 2560), (40, 24), (33, 1288)])
def test_sizes_around_the_blocks(emulated: ctypes.CDLL, rows: int, inner: int) -> None:
    x, weight, bias = operands(3, rows, inner)
    assert torch.allclose(run_kernel(emulated, x, weight, bias), exact(x, weight, bias), rtol=1e-5, atol=1e-4)


def test_the_same_bits_in_whatever_order_threads_run(emulated: ctypes.CDLL) -> None:
    """A missing barrier would show."""
    arguments = operands(2, 6, 1288)
    results = []
    for seed in range(5):
        emulated.emulator_seed(seed)
        results.append(run_kernel(emulated, *arguments))
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_without_a_gpu_torch_does_it(dtype: torch.dtype) -> None:
    x, weight, bias = operands(3, 5, 16)
    result = half_linear(x.to(dtype), weight.to(dtype), bias)
    assert result.dtype == torch.float32
    assert torch.allclose(result, exact(x, weight, bias), rtol=2e-2, atol=5e-2)


@pytest.mark.long
@needs_nvcc
def test_nvcc_compiles_the_kernel(tmp_path: Path) -> None:
    library = compiled_by_nvcc("small_gemm", tmp_path)
    assert library.ds2_small_gemm_columns() == MOST_STREAMS
    assert hasattr(library, "ds2_small_gemm")


@needs_gpu
@pytest.mark.parametrize("streams", [1, 2, 4, 10, 16, 17])
def test_on_a_gpu(streams: int) -> None:
    x, weight, bias = operands(streams, 2560, 2560, "cuda")
    assert torch.allclose(half_linear(x, weight, bias), exact(x, weight, bias), rtol=1e-3, atol=1e-2)
