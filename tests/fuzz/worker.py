"""A process that reads hostile inputs, one after another, under limits; `fuzz.pool` starts it and watches.

    python -m fuzz.worker MODULE FOLDER [KIND ...]

Its standard input has a line for each input, `KIND NUMBER`; its answers are lines of JSON. The input lies in
FOLDER/input while it is read, and stays there when this process dies.
"""

import ctypes
import faulthandler
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from fuzz.kind import Files, Kind

PR_SET_PDEATHSIG = 1
ADDRESSES = 4 << 30  # bytes of address space beyond those in use before the first input
LARGEST = 10_000_000  # bytes of a file


def main() -> None:
    """Answers until its standard input ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    faulthandler.enable()
    module, folder, *names = sys.argv[1:]
    kinds = {name: kind for name, kind in importlib.import_module(module).KINDS.items() if name in names}
    seeds = {name: kind.seeds() for name, kind in kinds.items()}
    for name, kind in kinds.items():
        for files in seeds[name]:
            kind.enter(_written(Path(folder), files))  # valid: must be read without an error
    used = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, used + ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        name = line.split()[0]
        path = _written(Path(folder), _made(kinds[name], Random(line.strip()), seeds[name]))
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
        before = _status("VmRSS")
        answer = _entered(kinds[name].enter, path) | {"peak": _status("VmHWM") - before}
        print(json.dumps(answer), file=answers, flush=True)


def _made(kind: Kind, rng: Random, seeds: list[Files]) -> Files:
    """A hostile input; the first seed in place of one that is too large to be made within this process's memory."""
    try:
        return kind.make(rng, seeds)
    except MemoryError:
        return seeds[0]


def _entered(enter: Callable[[Path], object], path: Path) -> dict[str, str]:
    from ds2.utils.errors import InputError

    try:
        enter(path)
    except InputError as error:
        return {"outcome": "refused", "report": str(error)}
    except BaseException:  # SystemExit and panics of Rust are no InputError either
        return {"outcome": "traceback", "report": traceback.format_exc()}
    return {"outcome": "accepted", "report": ""}


def _written(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes an input into `folder`/input, without what was there; the path of its first file. A file has at most
    `LARGEST` bytes: the limit of memory holds for such files."""
    target = folder / "input"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, data in files.items():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_bytes(data[:LARGEST])
    return target / next(iter(files))


def _status(key: str) -> int:
    """Bytes of memory of this process, of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


if __name__ == "__main__":
    main()
