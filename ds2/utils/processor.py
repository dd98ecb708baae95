"""What this processor can do."""

import functools
from pathlib import Path

FLAGS = Path("/proc/cpuinfo")


def has_matrix_unit() -> bool:
    """Whether this processor multiplies matrices of bfloat16 in a unit of its own (AMX)."""
    return "amx-bf16" in processor_features()


def has_bfloat16() -> bool:
    """Whether this processor multiplies numbers of bfloat16 faster than those of float32; others only emulate it."""
    return has_matrix_unit() or "avx512bf16" in processor_features()


@functools.cache
def processor_features() -> frozenset[str]:
    """By LLVM's names."""
    from llvmlite.binding import get_host_cpu_features

    return frozenset(name for name, has in get_host_cpu_features().items() if has)


@functools.cache
def processor_flags() -> frozenset[str]:
    """By Linux's names, which need no LLVM; none elsewhere."""
    return frozenset(processor_line().partition(":")[2].split())


def processor_line() -> str:
    """Linux's line of what the processor can do; empty elsewhere."""
    try:
        with FLAGS.open() as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""
