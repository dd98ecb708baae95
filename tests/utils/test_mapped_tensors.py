"""Mapped safetensors files: what safetensors reads, and nothing of a damaged file."""

import json
from collections.abc import Callable
from pathlib import Path

import hypothesis
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import strategies
from safetensors.numpy import load_file, save, save_file

from ds2.utils.mapped_tensors import TYPES, map_tensors

ARRAYS = strategies.dictionaries(
    strategies.sampled_from(["a", "b/c", "é"]),
    strategies.sampled_from(list(TYPES.values())).flatmap(
        lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ),
)


@hypothesis.given(ARRAYS)
def test_the_arrays_are_those_of_safetensors(tmp_path_factory: pytest.TempPathFactory, values: dict) -> None:
    path = tmp_path_factory.mktemp("arrays") / "x.safetensors"
    save_file(values, path, {"ds2": "é"})
    metadata, found = map_tensors(path)
    assert metadata == {"ds2": "é"}
    expected = load_file(path)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].flags.aligned
        np.testing.assert_array_equal(found[name], array)


def test_what_is_written_to_an_array_does_not_reach_the_file(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3)}, path := tmp_path / "x.safetensors", {})
    map_tensors(path)[1]["a"][:] = 1.0
    assert not load_file(path)["a"].any()


@pytest.mark.parametrize("offsets", [[-8, 16], [16, 8], [0, 16], [0, 32], [0, 24.0], 5])
def test_an_array_that_is_not_in_the_file_is_refused(tmp_path: Path, offsets: object) -> None:
    entry = {"dtype": "F64", "shape": [3], "data_offsets": offsets}
    header = json.dumps({"__metadata__": {}, "a": entry}).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + bytes(24))
    with pytest.raises((ValueError, TypeError)):
        map_tensors(tmp_path / "x")


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
def test_a_file_of_another_length_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    (tmp_path / "x").write_bytes(damage(save({"a": np.zeros(3)}, {})))
    with pytest.raises(ValueError, match=r"cut off|mmap"):
        map_tensors(tmp_path / "x")
