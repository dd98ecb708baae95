"""Another process that writes into a folder."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """While a process holds the lock of the folder."""
    program = (
        "import pathlib, sys\n"
        "from ds2.utils.folder_lock import FolderLock\n"
        "with FolderLock(pathlib.Path(sys.argv[1])):\n"
        "    print(flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        yield
        process.stdin.close()
