"""The checks of `ds2 doctor`: each finding says what is there and, where something is missing, what mends it."""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import ds2
from ds2.bundle import read_record
from ds2.utils.errors import InputError
from ds2.utils.extras import EXTRAS
from ds2.utils.model_names import MODELS

CHECKOUT = "in ds2's checkout: pip install -c constraints.txt"


@dataclass(frozen=True)
class Check:
    """One line: a part of the installation, its state, and what mends it; severity counts where `mend` is not empty."""

    name: str
    state: str
    mend: str = ""
    severity: Literal["missing", "broken"] = "missing"


def check() -> Iterator[Check]:
    """All findings, what everything needs first."""
    yield Check("ds2", f"{ds2.__version__} in {Path(ds2.__file__).parent}")
    yield Check("Python", f"{platform.python_version()}, {sys.executable}")
    yield from (torch := list(_torch()))
    yield from _models()
    if torch[0].severity != "broken":
        yield _kernels()
    for extra in dict.fromkeys(EXTRAS.values()):
        yield _extra(extra)
    if find_spec("sounddevice") is not None:
        yield _portaudio()


def _torch() -> Iterator[Check]:
    if find_spec("torch") is None:
        yield Check("torch", "not installed; NumPy and numba transcribe", "to train: pip install torch torchaudio")
        return
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: one of its libraries is missing
        yield Check("torch", f"cannot be imported: {error}", f"{CHECKOUT} .", "broken")
        return
    capability = torch.backends.cpu.get_cpu_capability()
    yield Check("torch", f"{torch.__version__}, threads: {torch.get_num_threads()}, {capability}")
    if torch.cuda.is_available():
        yield Check("GPU", f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}")
        mend = "" if (nvcc := shutil.which("nvcc")) else "the GPU runs torch's kernels; ds2's own need the CUDA toolkit"
        yield Check("nvcc", nvcc or "not found", mend)
    else:
        built = "torch is built without CUDA" if torch.version.cuda is None else "no driver or no device"
        yield Check("GPU", f"none ({built}); everything runs on the CPU")


def _models() -> Iterator[Check]:
    paths = sorted(MODELS.glob("*.safetensors"))
    if not paths:
        yield Check("models", f"none in {MODELS}", f"{CHECKOUT} .", "broken")
    for path in paths:
        try:
            read_record(path)
        except InputError as error:
            yield Check("models", str(error), f"{CHECKOUT} --force-reinstall --no-deps .", "broken")
    if paths:
        yield Check("models", ", ".join(path.stem for path in paths))


def _kernels() -> Check:
    """The beam search stands for all kernels: it takes the longest to compile."""
    from ds2.decoder.search import search
    from ds2.utils.kernel_library import library_place

    if search.linked:
        return Check("kernels", f"in a library, {library_place()}; numba is not needed for them")
    from ds2.utils.kernel_cache import kept_in

    folder, compiled = kept_in(search.dispatcher)
    if folder is None:
        return Check("kernels", "compiled anew in each process: no folder can be written", "set NUMBA_CACHE_DIR")
    if not compiled:
        return Check("kernels", "not compiled yet; the first run does it", "ds2 warmup")
    return Check("kernels", f"compiled, in {folder}")


def _portaudio() -> Check:
    try:
        import sounddevice
    except OSError as error:
        return Check("PortAudio", f"{error}; ds2 listen needs it", "on Debian: apt install libportaudio2")
    return Check("PortAudio", str(sounddevice.get_portaudio_version()[1]))


def _extra(extra: str) -> Check:
    absent = sorted(module for module, owner in EXTRAS.items() if owner == extra and find_spec(module) is None)
    if not absent:
        return Check(f"[{extra}]", "installed")
    return Check(f"[{extra}]", f"lacks {', '.join(absent)}", f"{CHECKOUT} '.[{extra}]'")
