"""The device that a model runs on, and the threads of a CPU."""

import os
import sys
from dataclasses import dataclass

from ds2.utils.errors import ParameterError


@dataclass(frozen=True)
class Cpu:
    """Where an engine without torch runs."""

    type: str = "cpu"


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


def cpu_threads() -> int:
    """torch's number of threads where torch is in use, else that of OMP_NUM_THREADS or of the cores."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))


def use_threads(count: int) -> None:
    """Sets `cpu_threads` for this process."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(count)
