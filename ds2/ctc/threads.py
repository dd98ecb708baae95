"""Shares work between threads, and runs it on those that torch's operators run on.

After an operator torch's OpenMP threads keep their cores busy for some milliseconds while they wait for the next one:
other threads would have to share the cores with them. So we ask the same OpenMP runtime for the same threads.
"""

import ctypes
import functools
import heapq
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from ds2.utils.forks import survive_forks

Item = TypeVar("Item")


def run_in_threads(work: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Calls `work`, which should release the GIL, with each item on a thread; raises the first error of any item."""
    left = list(items)
    if len(left) < 2:
        for item in left:
            work(item)
    elif (openmp := _torchs_openmp()) is None:
        list(_pool(os.getpid()).map(work, left))
    else:
        _run_on_openmp(openmp, work, left)


def share_work(work: np.ndarray, threads: int) -> list[np.ndarray]:
    """(B,) work of each utterance -> for each thread (n,) utterances: the largest first, always to the idlest."""
    groups: list[list[int]] = [[] for _ in range(min(threads, len(work)))]
    loads = [(0, number) for number in range(len(groups))]
    for index in np.argsort(-work, kind="stable"):
        load, number = heapq.heappop(loads)
        groups[number].append(int(index))
        heapq.heappush(loads, (load + int(work[index]), number))
    return [np.array(group) for group in groups if group]


def _run_on_openmp(openmp: ctypes.CDLL, work: Callable[[Item], object], items: list[Item]) -> None:
    survive_forks()
    errors: list[BaseException] = []
    left = iter(items)  # shared: there may be fewer threads than items

    def take_and_work(_: object) -> None:
        try:
            for item in left:
                work(item)
        except BaseException as error:  # must not leave the callback
            errors.append(error)

    openmp.GOMP_parallel(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(take_and_work), None, len(items), 0)
    if errors:
        raise errors[0]


@functools.cache
def _torchs_openmp() -> ctypes.CDLL | None:
    """GNU's runtime, which comes with torch on Linux."""
    for path in Path(torch.__file__).parent.glob("lib/libgomp*.so*"):
        return ctypes.CDLL(str(path))
    return None


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork does not inherit its parent's."""
    return ThreadPoolExecutor(os.cpu_count())
