"""Sequences of utterances made of others without an object for each utterance; columns of any sequence of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from ds2.data.utterance import Utterance


class Columnar(Sequence[Utterance]):
    """A sequence whose slices are Selections of it, and whose columns can be read without its utterances."""

    @overload
    def __getitem__(self, key: int) -> Utterance: ...
    @overload
    def __getitem__(self, key: slice) -> "Selection": ...
    def __getitem__(self, key: int | slice) -> "Utterance | Selection":
        if isinstance(key, slice):
            return Selection(self, np.arange(len(self))[key])
        if not -len(self) <= key < len(self):
            raise IndexError(key)
        return self.utterance(key % len(self))

    def utterance(self, number: int) -> Utterance:
        """The utterance of that number, from 0."""
        raise NotImplementedError

    @property
    def durations(self) -> np.ndarray:
        """(N,) float64 seconds."""
        raise NotImplementedError

    def values(self, name: str) -> Iterator[Any]:
        """The text, speaker or lang of each utterance."""
        return (getattr(utterance, name) for utterance in self)

    def folders(self) -> tuple[np.ndarray, list[Path]]:
        """(N,) number of the folder of each recording, and the folders in the order in which they appear."""
        raise NotImplementedError


class Selection(Columnar):
    """The utterances of `source` at the (n,) `indices`."""

    def __init__(self, source: Sequence[Utterance], indices: np.ndarray):
        self.source, self.indices = source, indices

    def __len__(self) -> int:
        return len(self.indices)

    def utterance(self, number: int) -> Utterance:
        """The utterance at a place of the selection."""
        return self.source[int(self.indices[number])]

    @property
    def durations(self) -> np.ndarray:
        """(n,) seconds."""
        return durations(self.source)[self.indices]

    def folders(self) -> tuple[np.ndarray, list[Path]]:
        """(n,) numbers of folders, and the folders that they number."""
        numbers, names = folders(self.source)
        return numbers[self.indices], names


class Joined(Columnar):
    """The utterances of several sequences, one after the other."""

    def __init__(self, parts: Sequence[Sequence[Utterance]]):
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def __iter__(self) -> Iterator[Utterance]:
        return (utterance for part in self.parts for utterance in part)

    def utterance(self, number: int) -> Utterance:
        """The utterance at a place of all parts together."""
        part = int(np.searchsorted(self.ends, number, side="right"))
        return self.parts[part][number - (int(self.ends[part - 1]) if part else 0)]

    @property
    def durations(self) -> np.ndarray:
        """(n,) seconds."""
        return np.concatenate([durations(part) for part in self.parts])

    def values(self, name: str) -> Iterator[Any]:
        """The values of one key, of all utterances in order."""
        return (value for part in self.parts for value in values(part, name))

    def folders(self) -> tuple[np.ndarray, list[Path]]:
        """(n,) numbers of folders, and the folders that they number."""
        found = [folders(part) for part in self.parts]
        first = np.cumsum([0, *(len(names) for _, names in found)])
        numbers = [numbers + start for (numbers, _), start in zip(found, first, strict=False)]
        return np.concatenate(numbers), [name for _, names in found for name in names]


def durations(utterances: Sequence[Utterance]) -> np.ndarray:
    """(N,) float64 seconds."""
    if isinstance(utterances, Columnar):
        return utterances.durations
    return np.fromiter((utterance.duration for utterance in utterances), np.float64, len(utterances))


def values(utterances: Sequence[Utterance], name: str) -> Iterator[Any]:
    """The text, speaker or lang of each utterance."""
    if isinstance(utterances, Columnar):
        return utterances.values(name)
    return (getattr(utterance, name) for utterance in utterances)


def folders(utterances: Sequence[Utterance]) -> tuple[np.ndarray, list[Path]]:
    """(N,) number of the folder of each recording, and the folders in the order in which they appear."""
    if isinstance(utterances, Columnar):
        return utterances.folders()
    numbers: dict[Path, int] = {}
    found = (numbers.setdefault(utterance.audio_path.parent, len(numbers)) for utterance in utterances)
    return np.fromiter(found, np.int64, len(utterances)), list(numbers)
