"""Libraries of CUDA kernels: those of an image, and folders that cannot be written. No GPU is needed."""

import shutil
from pathlib import Path

import pytest
from helpers.kernels import needs_nvcc

from ds2.utils import cuda_library
from ds2.utils.cuda_library import NoCompiler, compile_ahead, load_library


def test_a_read_only_root_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kernels_or_none` warns of NoCompiler and goes on."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(NoCompiler, match="XDG_CACHE_HOME"):
        load_library("viterbi", "80")


@pytest.mark.long
@needs_nvcc
def test_what_is_compiled_ahead_needs_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources = tmp_path / "csrc"
    shutil.copytree(cuda_library.SOURCES, sources)
    (sources / "ctc.cu").unlink()  # it takes minutes
    monkeypatch.setattr(cuda_library, "SOURCES", sources)
    monkeypatch.setattr(cuda_library, "READY", tmp_path / "compiled")
    compile_ahead(["80", "90"])
    monkeypatch.setenv("PATH", "")
    for name in ("viterbi", "small_gemm"):
        for architecture in ("80", "90"):
            assert load_library(name, architecture)
    with pytest.raises(NoCompiler):
        load_library("viterbi", "70")
