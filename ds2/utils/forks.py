"""Child processes: forked ones can compute, on one thread; none outlives its parent."""

import ctypes
import functools
import os
import signal
import sys
from importlib.util import find_spec

# prctl(2): the signal that a process gets when its parent dies; its name
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


@functools.cache
def survive_forks() -> None:
    """Lets processes that are forked from now on use torch, on one thread.

    The threads of GNU's OpenMP do not survive a fork, and a child that asked for them would wait for ever. Processes
    that shall use several threads must be spawned.
    """
    if find_spec("torch") is None:
        return
    import torch

    os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))


def die_with_parent(parent: int | None) -> None:
    """Has Linux kill this process when its parent, of this number, ends, even by a kill; other systems do nothing."""
    if sys.platform != "linux" or parent is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def name_process(name: str) -> None:
    """Names this process in the lists of ps and top, where Linux does so; 15 characters at most."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())
