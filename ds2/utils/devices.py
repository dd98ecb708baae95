"""The device that a model runs on, and the threads of a CPU."""

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.utils.errors import ParameterError


@dataclass(frozen=True)
class Cpu:
    """Where an engine without torch runs."""

    type: str = "cpu"

    def __str__(self) -> str:
        return self.type


def choose_device(name: str) -> str:
    """ "auto" -> "cuda" where there is one, else "cpu".

    Raises:
        ParameterError: a CUDA device is asked for and there is none, or the name is not that of a device.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ParameterError("device", f"{name!r} is not a device; use auto, cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise ParameterError("device", f"{name!r} is not supported; use auto, cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        here = f"{count} CUDA devices here" if count else "no CUDA device here; use cpu"
        raise ParameterError("device", f"{name!r}: {here}")
    return name


def may_have_gpu() -> bool:
    """Whether a driver for GPUs is there; what torch can use, only torch knows, and its import takes a second."""
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))


def cpu_threads() -> int:
    """torch's number of threads where torch is in use, else that of OMP_NUM_THREADS or of the cores."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))


class _OneThread:
    """How many blocks of `one_thread_a_product` run in all threads now."""

    def __init__(self) -> None:
        self.blocks, self.lock = 0, threading.Lock()

    def add(self, change: int) -> None:
        with self.lock:
            self.blocks += change
            _thread_products(1 if self.blocks else cpu_threads())


_one_thread = _OneThread()


@contextlib.contextmanager
def one_thread_a_product() -> Iterator[None]:
    """NumPy's products take one thread each: for threads that compute as many of them at once, or for small ones.

    So do those of other threads, until the last of such blocks has ended.
    """
    _one_thread.add(1)
    try:
        yield
    finally:
        _one_thread.add(-1)


def _thread_products(count: int) -> None:
    for set_threads in _openblas():
        set_threads(count)


@functools.cache
def _openblas() -> list[Callable[[int], object]]:
    """Sets the threads of NumPy's products; none in another build of NumPy."""
    libraries = Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas*")
    found = (getattr(ctypes.CDLL(str(each)), "scipy_openblas_set_num_threads64_", None) for each in libraries)
    return [each for each in found if each is not None]


def use_threads(count: int) -> None:
    """Sets `cpu_threads` for this process, also those of NumPy's products."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    _thread_products(count)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(count)
