"""torchaudio's Python part, also beside a CPU-only torch.

The wheels of torchaudio 2.11 for Linux are linked to CUDA; without it `import torchaudio` raises OSError, although
resampling needs nothing compiled. Then a stand-in takes the place of its extension module.
"""

import importlib
import sys
from types import ModuleType

EXTENSION = "torchaudio._extension"


def functional() -> ModuleType:
    """torchaudio.functional. Its import takes time: call this only when it is needed."""
    try:
        return importlib.import_module("torchaudio.functional")
    except OSError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
            del sys.modules[name]  # what the failed import left behind
        sys.modules[EXTENSION] = _stand_in()
        return importlib.import_module("torchaudio.functional")


def transforms() -> ModuleType:
    """torchaudio.transforms, likewise."""
    functional()
    return importlib.import_module("torchaudio.transforms")


def _stand_in() -> ModuleType:
    """Says that nothing compiled is there; functions that need it raise when they are called."""
    module = ModuleType(EXTENSION)
    module.__dict__.update(
        _IS_TORCHAUDIO_EXT_AVAILABLE=False,
        _IS_ALIGN_AVAILABLE=False,
        fail_if_no_align=_fail_when_called,
    )
    return module


def _fail_when_called(function: object) -> object:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"{function} needs torchaudio's compiled extension, which does not load on this machine")

    return fail
