"""Our CUDA kernels, `csrc/`: compiled by nvcc at first use on a GPU, kept for later, loaded with ctypes.

A library is plain C functions of pointers and sizes and knows nothing of torch: it fits every version of it. The file's
name holds a hash of the sources and the architecture, so that a stale one is never loaded. An image has the libraries
ready, and no compiler.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

if TYPE_CHECKING:
    import torch

PACKAGE = Path(__file__).parents[1]
SOURCES = next(folder for folder in (PACKAGE.parent / "csrc", PACKAGE / "csrc") if folder.exists())  # checkout, wheel
READY = PACKAGE / "compiled"  # by compile_ahead
FLAGS = ("-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static")


class NoCompiler(RuntimeError):
    """nvcc is not on this machine, or cannot compile the kernels, or there is no folder for them."""


def kernels_or_none(name: str, instead: str) -> ctypes.CDLL | None:
    """The library of `csrc/NAME.cu` for the current GPU, compiled if need be: half a minute, once for each machine.

    None where no compiler is, with one warning that says what happens `instead`.
    """
    return _load_or_warn(name, _architecture(), instead)


def _architecture() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return f"{major}{minor}"


@functools.cache
def _load_or_warn(name: str, architecture: str, instead: str) -> ctypes.CDLL | None:
    try:
        return load_library(name, architecture)
    except NoCompiler as error:
        warnings.warn(f"{instead}: {error}", stacklevel=4)
        return None


def launch(library: ctypes.CDLL, name: str, arguments: ctypes.Structure, device: "torch.device", stream: int) -> None:
    """Calls the function NAME, with NAME_workspace(arguments) bytes of the device's memory as `arguments.workspace`.

    Raises:
        RuntimeError: with the number of a CUDA error.
    """
    import torch

    size = getattr(library, f"{name}_workspace")
    size.restype = ctypes.c_int64
    workspace = torch.empty(size(ctypes.byref(arguments)), dtype=torch.uint8, device=device)
    arguments.workspace = workspace.data_ptr()
    call(library, name, arguments, stream)


def call(library: ctypes.CDLL, name: str, arguments: ctypes.Structure, stream: int | None) -> None:
    """Calls the function NAME, which enqueues its work on the stream.

    Raises:
        RuntimeError: with the number of a CUDA error.
    """
    error = getattr(library, name)(ctypes.byref(arguments), ctypes.c_void_p(stream))
    if error:
        raise RuntimeError(f"{name}: CUDA error {error}")


@functools.cache
def load_library(name: str, architecture: str) -> ctypes.CDLL:
    """The library of `csrc/NAME.cu` for an architecture such as "90", which is compiled if it is not there.

    Raises:
        NoCompiler: it is not there, and cannot be compiled or written.
    """
    file = _file_name(name, architecture)
    path = _cache() / file
    if (READY / file).exists():
        path = READY / file
    elif not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as partial:
                compile_kernels(name, partial, [architecture])
        except (OSError, InputError) as error:
            raise NoCompiler(f"{error}; set XDG_CACHE_HOME to a folder that can be written") from error
    return ctypes.CDLL(str(path))


def compile_ahead(architectures: list[str]) -> None:
    """Compiles all of csrc/ into the package for GPUs of these architectures; no GPU needs to be there.

    Raises:
        NoCompiler: nvcc is missing, or fails.
    """
    READY.mkdir(exist_ok=True)
    for source in sorted(SOURCES.glob("*.cu")):
        first, *others = [READY / _file_name(source.stem, each) for each in architectures]
        compile_kernels(source.stem, first, architectures)
        for other in others:
            other.unlink(missing_ok=True)
            other.symlink_to(first.name)


def _file_name(name: str, architecture: str) -> str:
    digest = hashlib.sha256(repr(FLAGS).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return f"{name}-sm{architecture}-{digest.hexdigest()[:16]}.so"


def compile_kernels(name: str, output: Path, architectures: list[str]) -> None:
    """Compiles `csrc/NAME.cu` into a shared library for GPUs of these architectures, such as "90" for an H200.

    Raises:
        NoCompiler: nvcc is missing, or fails; the message holds what it said.
    """
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        raise NoCompiler("nvcc is not on PATH: install the CUDA toolkit to have ds2's own kernels")
    machines = ",".join(f"sm_{number}" for number in architectures)
    code = f"-gencode=arch=compute_{min(architectures, key=int)},code=[{machines}]"  # the long first half only once
    command = [nvcc, *FLAGS, code, "-o", str(output), str(SOURCES / f"{name}.cu")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoCompiler(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ds2" / "kernels"
