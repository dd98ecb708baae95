"""Arrays in files that are read, written and sorted in slices, for data larger than memory."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SAMPLES = 256  # keys of each sorted run, from which the common cuts are chosen


class Column:
    """A one-dimensional array in a file; the owner of the folder removes the file."""

    def __init__(self, path: Path, dtype: type):
        self.dtype = np.dtype(dtype)
        self.length = 0
        self.file = path.open("w+b", buffering=0)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.length)
        self.file.seek(start * self.dtype.itemsize)
        return np.fromfile(self.file, self.dtype, max(0, stop - start))

    def __setitem__(self, rows: slice, values: np.ndarray) -> None:
        self.file.seek(rows.start * self.dtype.itemsize)
        left = np.ascontiguousarray(values, self.dtype).view(np.uint8).data
        while left:  # tofile would lose the last bytes, and say nothing, where the disk is full
            left = left[self.file.write(left) :]
        self.length = max(self.length, rows.start + len(values))

    def append(self, values: np.ndarray) -> None:
        """Adds (n,) values at the end."""
        self[self.length : self.length + len(values)] = values

    def gather(self, places: np.ndarray, size: int) -> np.ndarray:
        """(n,) elements at (n,) `places`, in any order, with at most `size` of the column in memory at once."""
        found = np.empty(len(places), self.dtype)
        for rows in slices(self.length, size):
            inside = np.flatnonzero((places >= rows.start) & (places < rows.stop))
            found[inside] = self[rows][places[inside] - rows.start]
        return found


class Columns:
    """Creates columns in a folder and closes their files at the end."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.made: list[Column] = []

    def __call__(self, dtype: type) -> Column:
        """Creates a column of a NumPy dtype."""
        self.made.append(Column(self.folder / str(len(self.made)), dtype))
        return self.made[-1]

    def __enter__(self) -> "Columns":
        return self

    def __exit__(self, *_: object) -> None:
        for column in self.made:
            column.file.close()


def slices(length: int, size: int) -> Iterator[slice]:
    """Slices of `size` that cover a range."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


@dataclass
class Merged:
    """A range of the keys of all runs, each once, with the sums of their counts, and their tags, equal in all runs."""

    keys: np.ndarray
    counts: np.ndarray
    tags: np.ndarray


class SortedRuns:
    """Runs of sorted keys, merged range by range.

    run 1  a b d | g h |  z        all runs are cut at the same keys; what lies
    run 2  b c   | f g |           between two cuts fits in memory together
    run 3  a     | h   |  x y
    """

    def __init__(self, columns: Columns):
        self._keys, self._counts, self._tags = columns(np.int64), columns(np.int64), columns(np.int64)
        self._ranks = columns(np.int64)
        self._runs: list[slice] = []
        self._samples: list[np.ndarray] = []

    def add(self, keys: np.ndarray, counts: np.ndarray, tags: np.ndarray) -> None:
        """Adds a run: (n,) ascending keys, each once, their counts and tags."""
        self._runs.append(slice(len(self._keys), len(self._keys) + len(keys)))
        self._samples.append(keys[:: max(1, len(keys) // SAMPLES)])
        self._keys.append(keys)
        self._counts.append(counts)
        self._tags.append(tags)

    def merge(self, size: int) -> Iterator[Merged]:
        """All keys in ascending order; each step reads about `size` keys of the runs."""
        done, cuts = 0, self._cuts(size)
        for starts, stops in itertools.pairwise(cuts):
            own = [slice(*cut) for cut in zip(starts.tolist(), stops.tolist(), strict=True) if cut[0] < cut[1]]
            if not own:
                continue
            keys, tags, counts = (
                np.concatenate([column[rows] for rows in own]) for column in (self._keys, self._tags, self._counts)
            )
            keys, first, places = np.unique(keys, return_index=True, return_inverse=True)
            taken = 0
            for rows in own:
                self._ranks[rows] = done + places[taken : taken + rows.stop - rows.start]
                taken += rows.stop - rows.start
            done += len(keys)
            yield Merged(keys, np.bincount(places, counts, len(keys)).astype(np.int64), tags[first])

    def _cuts(self, size: int) -> np.ndarray:
        """(ranges + 1, runs) the place in each run where each range of keys begins."""
        total, count = len(self._keys), -(-len(self._keys) // size)
        if not total:
            return np.zeros((1, len(self._runs)), np.int64)
        samples = np.concatenate(self._samples)
        lengths = [run.stop - run.start for run in self._runs]
        weights = np.concatenate(
            [np.full(len(s), n / len(s)) for s, n in zip(self._samples, lengths, strict=True) if n]
        )
        order = np.argsort(samples, kind="stable")
        reached = np.cumsum(weights[order])
        places = np.searchsorted(reached, np.arange(1, count) * (total / count))
        splitters = samples[order[np.minimum(places, len(order) - 1)]]
        inner = [run.start + np.searchsorted(self._keys[run], splitters) for run in self._runs]
        edges = [[run.start for run in self._runs], *np.transpose(inner), [run.stop for run in self._runs]]
        return np.array(edges, np.int64)

    def ranks(self, run: int) -> np.ndarray:
        """(n,) the place of each key of a run among all merged keys."""
        return self._ranks[self._runs[run]]

    def clear(self) -> None:
        """Frees the space in the files."""
        for column in (self._keys, self._counts, self._tags, self._ranks):
            column.file.truncate(0)
