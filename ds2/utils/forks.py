"""Forked processes: they can compute, on one thread."""

import functools
import os
from importlib.util import find_spec


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
