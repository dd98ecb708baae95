"""The CUDA kernels of csrc/ for the tests: compiled for the CPU with emulator.h, a GPU thread a fibre, and by nvcc."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch

from ds2.utils.cuda_library import SOURCES, compile_kernels

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")


@functools.cache
def emulate(name: str) -> ctypes.CDLL:
    """The library of csrc/NAME.cu, to be run on the CPU; skips the test without a C++ compiler."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    flags = ("-x", "c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-unknown-pragmas", "-Wall", "-Werror")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/{name}.so"
        command = ["g++", *flags, "-I", str(Path(__file__).parent), "-o", path, str(SOURCES / f"{name}.cu")]
        subprocess.run(command, check=True)
        return ctypes.CDLL(path)


def compiled_by_nvcc(name: str, folder: Path) -> ctypes.CDLL:
    """The library for A100 and H100, checked to hold code for both; it loads without a GPU."""
    path = folder / f"{name}.so"
    compile_kernels(name, path, ["80", "90"])
    if tool := shutil.which("cuobjdump"):
        listing = subprocess.run([tool, "--list-elf", str(path)], capture_output=True, text=True).stdout
        assert "sm_80" in listing
        assert "sm_90" in listing
    return ctypes.CDLL(str(path))
