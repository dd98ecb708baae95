"""How a process uses the processor's cores and memory; only of glibc is it known what it does with freed memory."""

import ctypes
import os

# Parameters of mallopt
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -3, -4, -8
KEPT, LARGE = 256 << 20, 32 << 20  # bytes that are kept in all, and of one array that is memory of its own


def keep_freed_memory() -> None:
    """Makes glibc keep what is freed for the next minibatch.

    Otherwise each large tensor is new memory from the kernel, which clears every page of it: a quarter of the time of
    a training on a CPU. `give_back_memory` ends what would otherwise grow: minibatches of many sizes leave gaps.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, -1)


def share_freed_memory() -> None:
    """Makes glibc keep what recordings free for those that follow, for all threads alike, until `give_back_memory`.

    By default up to eight places for each core are kept apart, and large arrays are new memory: 6 % of the time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(ARENA_MAX, 2)
        mallopt(MMAP_THRESHOLD, LARGE)
        mallopt(TRIM_THRESHOLD, KEPT)


def give_back_memory() -> None:
    """Makes glibc return all freed memory to the kernel."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def share_cores(workers: int) -> None:
    """Leaves a core to each worker of a training: with more threads than cores, threads wait for one another."""
    import torch  # recognition without torch imports this module, too

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, min(torch.get_num_threads(), cores // processes - workers)))
