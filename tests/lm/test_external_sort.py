"""Numbers in files: columns in slices, and sorted runs that are merged range by range."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.lm.external_sort import SAMPLES, Columns, SortedRuns, slices


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 50)), min_size=1, max_size=6), st.integers(1, 40))
def test_merged_runs_are_the_sorted_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], size: int
) -> None:
    with Columns(tmp_path_factory.mktemp("columns")) as columns:
        runs, parts = SortedRuns(columns), [np.unique(np.array(row, np.int64), return_counts=True) for row in rows]
        for keys, counts in parts:
            runs.add(keys, counts, 7 * keys)
        merged = list(runs.merge(size))
        whole, counts = np.unique(np.concatenate([np.array(row, np.int64) for row in rows]), return_counts=True)
        assert [key for part in merged for key in part.keys] == whole.tolist()
        assert [count for part in merged for count in part.counts] == counts.tolist()
        assert [tag for part in merged for tag in part.tags] == (7 * whole).tolist()
        for number, (keys, _) in enumerate(parts):
            assert whole[runs.ranks(number)].tolist() == keys.tolist()


def test_no_range_holds_many_more_keys_than_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Columns(tmp_path) as columns:
        runs, size = SortedRuns(columns), 5000
        for _ in range(10):
            keys = np.unique(rng.zipf(1.3, size) % 10**6)
            runs.add(keys, np.ones_like(keys), keys)
        cuts = runs._cuts(size)
        assert len(cuts) > 2
        assert np.diff(cuts, axis=0).sum(1).max() <= size + 10 * (size // SAMPLES + 1)


@given(st.lists(st.integers(-5, 5)), st.integers(1, 7), st.data())
def test_a_column_is_an_array(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], size: int, data: st.DataObject
) -> None:
    with Columns(tmp_path_factory.mktemp("columns")) as columns:
        column = columns(np.int64)
        for part in slices(len(values), size):
            column.append(np.array(values[part], np.int64))
        assert len(column) == len(values)
        assert column[:].tolist() == values
        places = np.array(data.draw(st.lists(st.integers(0, len(values) - 1))) if values else [], np.int64)
        assert column.gather(places, size).tolist() == np.array(values, np.int64)[places].tolist()
        if values:
            column[0:1] = np.array([9])
            assert column[:].tolist() == [9, *values[1:]]
