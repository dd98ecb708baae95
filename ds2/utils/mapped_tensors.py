"""Safetensors files mapped into memory: processes that read the same file share its pages, and nothing is copied."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip
METADATA = "__metadata__"


def map_tensors(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata of a file, and its arrays (...) by name. What is written to one does not reach the file.

    Raises:
        OSError: it cannot be read.
        ValueError, KeyError, TypeError, ArithmeticError, RecursionError: it is no such file, or it is cut off.
    """
    data = np.asarray(np.memmap(path, np.uint8, "c"))
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = parsed(data[8:start].tobytes())
    if not isinstance(header, dict):
        raise ValueError("no header")
    header = dict(header)
    metadata = header.pop(METADATA)
    ends = [entry["data_offsets"][1] for entry in header.values()]
    if start + max(ends, default=0) != len(data):
        raise ValueError("cut off, or longer than its arrays")
    return metadata, {name: _array(data[start:], entry) for name, entry in header.items()}


@functools.lru_cache(maxsize=2)
def parsed(text: str | bytes) -> Any:
    """`json.loads`, once for a header that is read several times in a row; what it returns must not be changed.

    Raises:
        ValueError, RecursionError: as json.loads does.
    """
    return json.loads(text)


def _array(data: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end:
        raise ValueError("an array begins before the file, or after its own end")
    return np.require(data[begin:end].view(TYPES[entry["dtype"]]), requirements="A").reshape(entry["shape"])
