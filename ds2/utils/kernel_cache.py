"""numba's compiler for our kernels, with a cache where a folder for it can be found.

Only what compiles a kernel or loads its machine code imports this, as numba takes 0.15 s to import.
"""

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.runtime import rtsys
from numba.core.typing.typeof import typeof_impl

from ds2.utils.compilations import compilations

logger = logging.getLogger(__name__)

UTILS = Path(__file__).parent
OTHER_ROOM = re.compile(r"^ *from ds2\.(\w+)", re.MULTILINE)


def dispatcher_of(function: Any, options: dict[str, Any]) -> Any:
    """`numba.njit(cache=True)` that also works where neither the package nor the user's cache folder is writable.

    numba refuses to compile there. This keeps the machine code in a private temporary folder then or, if there is none,
    compiles it again in each process.
    """
    options = {**options, "no_cfunc_wrapper": True}  # nothing but Python and other kernels calls them
    with contextlib.suppress(NoCache):
        return _with_cache(function, options)
    if folder := _private_folder():
        numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # for the kernels that follow, too
        _link_installed(folder)
        with contextlib.suppress(NoCache):
            return _with_cache(function, options)
    return numba.njit(**options)(function)


class NoCache(Exception):
    """numba finds no folder in which it can keep machine code."""


class _KernelCache(FunctionCache):
    """numba's cache, but machine code comes from it without what only a compilation needs: numba's tables of types and
    functions take 0.1 s to fill, and the compiler fills them itself."""

    counts_references = True

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if self.counts_references:
            rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)


def _with_cache(function: Any, options: dict[str, Any]) -> Any:
    dispatcher = numba.njit(**options)(function)
    # The extensions of other packages, which it looks for at each start, count only when something is compiled.
    dispatcher._compilation_chain_init_hook = int
    try:
        cache = dispatcher._cache = _KernelCache(function)
    except RuntimeError as error:
        if "no locator available" in str(error):
            raise NoCache from error
        raise
    cache.counts_references = options.get("_nrt", True)
    sources = _hash_of_kernels(Path(function.__code__.co_filename).parent)
    cache._cache_file = IndexDataCacheFile(cache._cache_path, f"{cache._impl.filename_base}.{sources}", sources)
    return dispatcher


def kept_in(dispatcher: Any) -> tuple[Path | None, bool]:
    """The folder of a kernel's machine code, None if it is not kept; whether it holds that of this kernel."""
    cache = dispatcher._cache
    file = getattr(cache, "_cache_file", None)
    if file is None:
        return None, False
    return Path(cache.cache_path), Path(file._index_path).exists()


class _Compilations(event.Listener):
    """Says at the first compilation of a process why it takes longer; machine code in the cache needs no word.

    Measures how long compilations take; numba holds a lock while one lasts, and those of kernels that it calls lie
    within it.
    """

    said = False
    depth, began = 0, 0.0

    def on_start(self, event: event.Event) -> None:
        if self.depth == 0:
            self.began = time.monotonic()
        self.depth += 1
        ours = event.data["dispatcher"].py_func.__module__.startswith("ds2.")
        if ours and not self.said:
            self.said = True
            logger.warning(
                "compiling ds2's kernels that this needs for this processor, once: it may take 20 seconds; "
                "ds2 warmup does it beforehand for all commands"
            )

    def on_end(self, event: event.Event) -> None:
        self.depth -= 1
        if self.depth == 0:
            compilations.seconds += time.monotonic() - self.began


event.register("numba:compile", _Compilations())


@functools.cache
def let_kernels_call(kind: type) -> None:
    """Tells numba that objects of this type stand for their `part` where a kernel calls one of them."""
    typeof_impl.register(kind)(lambda kernel, context: typeof_impl(kernel.part, context))


@functools.cache
def _hash_of_kernels(folder: Path) -> str:
    """A hash of all sources that a kernel in this folder may call.

    numba checks only the file of the kernel; it would keep old machine code of the functions that the kernel calls.
    """
    digest = hashlib.sha256()
    for path in sorted(source for called in folders_called(folder) for source in called.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def folders_called(folder: Path) -> set[Path]:
    """The folder, that of this file, and the rooms of the package from which their files import anything."""
    found: set[Path] = set()
    waiting = [folder, UTILS]
    while waiting:
        if (here := waiting.pop()) in found:
            continue
        found.add(here)
        rooms = {room for path in here.glob("*.py") for room in OTHER_ROOM.findall(path.read_text(encoding="utf-8"))}
        waiting += [UTILS.parent / room for room in rooms if (UTILS.parent / room).is_dir()]
    return found


def _private_folder() -> Path | None:
    """A folder that only this user can write to, because numba runs the code that it finds in a cache.

    Every process of the user finds the same folder, unless another user has taken its name.
    """
    for parent in _temporary_folders():
        folder = parent / f"ds2-numba-{os.getuid()}"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if _is_private(folder):
                return folder
            return Path(tempfile.mkdtemp(prefix="ds2-numba-", dir=parent))
    return None


def _link_installed(folder: Path) -> None:
    """Links the machine code that lies in the package into the private folder: an image holds it, or root compiled it.

    numba reads no cache that it cannot write. What it compiles itself takes the place of a link.
    """
    for kept in UTILS.parent.rglob("__pycache__/*.nb[ic]"):
        room = UserProvidedCacheLocator.get_suitable_cache_subpath(str(kept.parents[1] / "kernels.py"))
        (folder / room).mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / room / kept.name).symlink_to(kept)


def _temporary_folders() -> list[Path]:
    """The system's folder, and Linux's shared memory, which is writable even in a container with a read-only root."""
    with contextlib.suppress(FileNotFoundError):
        return [Path(tempfile.gettempdir()), Path("/dev/shm")]
    return [Path("/dev/shm")]


def _is_private(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) == 0o700
