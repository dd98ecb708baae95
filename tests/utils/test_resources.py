"""Freed memory stays with the process until it is given back."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from pathlib import Path
import torch
from ds2.utils.resources import give_back_memory, keep_freed_memory

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

keep_freed_memory()
before = megabytes()
tensors = [torch.ones(25 << 20) for _ in range(3)]  # 100 MB each
last = torch.ones(1)  # above them: only the end of the heap could be given back otherwise
del tensors
print(megabytes() - before)
give_back_memory()
print(megabytes() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc tells of memory")
def test_freed_memory_is_kept_and_given_back() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    kept, given_back = map(int, result.stdout.split())
    assert kept > 250
    assert given_back < 100
