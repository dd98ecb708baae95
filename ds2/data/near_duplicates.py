"""Pairs of alike vectors among millions, without a comparison of each with each."""

from collections.abc import Iterator
from itertools import product

import numpy as np

AXES = 12  # directions of most variance in which alike vectors must be near
GRID = 4  # of them, which with the duration make the cells
SAMPLE = 20_000  # vectors that the directions are found on
ROUNDING = 0.005  # of a distance between vectors in float16
BLOCK = 20_000  # pairs that are compared at a time


def alike_pairs(
    vectors: np.ndarray, seconds: np.ndarray, correlation: float, difference: float
) -> Iterator[tuple[int, int]]:
    """(N, D) float16 vectors of unit length, (N,) seconds -> pairs i < j.

    Those with v_i v_j > correlation and |s_i - s_j| <= difference.

    Alike vectors differ by at most sqrt(2 - 2 correlation), so in any direction. Each vector lies in a cell of a grid
    of that width over the directions of most variance and its duration, and is compared with those in neighbouring
    cells.
    """
    if len(vectors) < 2:
        return
    # The cell of each vector as one number, with the vectors sorted by it: a neighbouring cell is a fixed distance
    # away.
    width = np.sqrt(2 - 2 * correlation) + ROUNDING
    projected = _projected(vectors)
    places = np.concatenate([seconds[:, None] / difference, projected[:, -GRID:] / width], axis=1)
    cells = np.floor(places - places.min(0)).astype(np.int64) + 1  # so that a neighbour is never below 0
    steps = np.cumprod([1, *(cells.max(0) + 2)[:-1]])
    keys = cells @ steps
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    neighbours = product((-1, 0, 1), repeat=cells.shape[1])
    # Each direction to a neighbour is taken for all vectors at once. Cheap distances leave few pairs for the true one.
    for offset in {int(np.dot(neighbour, steps)) for neighbour in neighbours}:
        if offset < 0:  # a pair is found from one side
            continue
        begin, end = (np.searchsorted(keys, keys + offset, side=side) for side in ("left", "right"))
        if offset == 0:
            begin = np.arange(len(keys)) + 1
        for one, other in _ranges(begin, end):
            one, other = order[one], order[other]
            near = np.square(projected[one] - projected[other]).sum(1) <= width**2
            near &= np.abs(seconds[one] - seconds[other]) <= difference
            yield from _alike(one[near], other[near], vectors, correlation)


def _projected(vectors: np.ndarray) -> np.ndarray:
    """(N, D) -> (N, AXES): along the directions of most variance."""
    some = vectors[:: len(vectors) // SAMPLE + 1].astype(np.float64)
    _, directions = np.linalg.eigh(some.T @ some)
    axes = directions[:, -AXES:].astype(np.float32)
    blocks = np.array_split(vectors, len(vectors) // BLOCK + 1)
    return np.concatenate([block.astype(np.float32) @ axes for block in blocks])


def _ranges(begin: np.ndarray, end: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(N,) -> blocks of pairs (i, j) with begin[i] <= j < end[i]."""
    rows = np.flatnonzero(end > begin)
    counts = (end - begin)[rows]
    totals = np.cumsum(counts)
    cuts = np.searchsorted(totals, np.arange(BLOCK, totals[-1] if len(totals) else 0, BLOCK))
    for part in np.split(np.arange(len(rows)), np.unique(cuts)):
        sizes = counts[part]
        one = np.repeat(rows[part], sizes)
        place = np.arange(len(one)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        yield one, begin[one] + place


def _alike(one: np.ndarray, other: np.ndarray, vectors: np.ndarray, correlation: float) -> Iterator[tuple[int, int]]:
    """The pairs whose correlation is above that; in float64 it is exact, since the vectors are in float16."""
    alike = np.einsum("ij,ij->i", vectors[one].astype(np.float64), vectors[other].astype(np.float64)) > correlation
    for pair in zip(one[alike].tolist(), other[alike].tolist(), strict=True):
        yield min(pair), max(pair)
