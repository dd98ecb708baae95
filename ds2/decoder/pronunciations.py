"""Pronunciations of many words as flat arrays: 100,000 of them are there at once, without an object for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.utils.errors import InputError

Phones = tuple[int, ...]  # outputs of the model; 0 is the blank
NAMES = ("pronounced", "phones")  # of the arrays in a bundle
MOST_LETTERS = 200  # of a word: a hypothesis is spelt letter by letter, whatever the number of its phones


@dataclass(frozen=True)
class Pronunciations:
    """N pronunciations.

    Attributes:
        words: among them those that are pronounced.
        pronounced: (N,) int32 place in `words` of the word of each pronunciation.
        phones: uint8, of all pronunciations, with a blank after each.
    """

    words: Sequence[str]
    pronounced: np.ndarray
    phones: np.ndarray

    def __post_init__(self) -> None:
        rows = all(array.ndim == 1 and array.dtype.kind in "iu" for array in (self.pronounced, self.phones))
        if (
            not rows
            or np.count_nonzero(self.phones == 0) != len(self.pronounced)
            or not (0 <= self.pronounced.min(initial=0) <= self.pronounced.max(initial=0) < max(1, len(self.words)))
        ):
            raise InputError("the bundle's pronunciations do not fit its language model; copy or make it again")
        if max(map(len, self.words), default=0) > MOST_LETTERS:
            longest = max(self.known(), key=len, default="")
            if len(longest) > MOST_LETTERS:
                raise InputError(f"{longest[:20]}...: a word of {len(longest):,} letters; at most {MOST_LETTERS}")

    @classmethod
    def of(cls, spoken: Mapping[str, Iterable[Phones]], words: Sequence[str] | None = None) -> "Pronunciations":
        """`words`: those whose pronunciations are taken, by default all."""
        words = list(spoken) if words is None else words
        pairs = [(number, phones) for number, word in enumerate(words) for phones in spoken.get(word, ())]
        flat = [phone for _, phones in pairs for phone in (*phones, 0)]
        return cls(words, np.array([number for number, _ in pairs], np.int32), np.array(flat, np.uint8))

    def to_dict(self) -> dict[str, list[Phones]]:
        """The pronunciations of each word that has any."""
        found: dict[str, list[Phones]] = {}
        every, start = self.phones.tolist(), 0
        for number, end in zip(self.pronounced.tolist(), self.ends.tolist(), strict=True):
            found.setdefault(self.words[number], []).append(tuple(every[start:end]))
            start = end + 1
        return found

    def among(self, words: Sequence[str]) -> "Pronunciations":
        """Those of these words, by their places among them."""
        return self if tuple(self.words) == tuple(words) else Pronunciations.of(self.to_dict(), words)

    @property
    def ends(self) -> np.ndarray:
        """(N,) past the last phone of each."""
        return np.flatnonzero(self.phones == 0)

    @property
    def lengths(self) -> np.ndarray:
        """(N,) phones of each."""
        return np.diff(self.ends, prepend=-1) - 1

    def known(self) -> set[str]:
        """The words that are pronounced."""
        return set(map(self.words.__getitem__, self.pronounced.tolist()))

    def table(self) -> np.ndarray:
        """(N, longest) uint8 phones, 0 beyond each pronunciation."""
        there = np.arange(self.lengths.max(initial=0)) < self.lengths[:, None]
        phones = np.zeros(there.shape, np.uint8)
        phones[there] = self.phones[self.phones != 0]
        return phones
