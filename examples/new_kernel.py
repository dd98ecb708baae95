"""Adds a kernel: runs of blanks on a path, where a long recording may be cut; a slow, readable reference beside it.

    path   b b 3 3 b b b 5      b blank
    runs   <->     <--->        (0, 2), (4, 7)

Within ds2 the kernel would stand beside what calls it, and the reference in the test.
"""

import itertools

import numpy as np

from ds2.text import BLANK
from ds2.utils.jit import njit


@njit(nogil=True)
def blank_runs(path):  # type: ignore[no-untyped-def]
    """(T,) best tokens of the frames -> (R, 2) first frame of each run of blanks, and the frame after its last."""
    runs = np.empty((len(path) // 2 + 1, 2), np.int64)
    count, start = 0, -1
    for t in range(len(path) + 1):
        blank = t < len(path) and path[t] == BLANK
        if blank and start < 0:
            start = t
        elif not blank and start >= 0:
            runs[count] = start, t
            count, start = count + 1, -1
    return runs[:count]


def reference(path: np.ndarray) -> np.ndarray:
    """The same, as one would write it without thinking of time."""
    ends = itertools.accumulate(len(list(group)) for _, group in itertools.groupby(path == BLANK))
    edges = [0, *ends]
    return np.array([(a, b) for a, b in itertools.pairwise(edges) if path[a : a + 1] == BLANK]).reshape(-1, 2)


def main() -> None:
    print(blank_runs(np.array([0, 0, 3, 3, 0, 0, 0, 5])).tolist())  # by hand
    rng = np.random.default_rng(0)
    for frames in [0, 1, 2, *rng.integers(3, 200, 200)]:
        path = rng.integers(0, 3, frames)
        np.testing.assert_array_equal(blank_runs(path), reference(path))
    print("equal to the reference on 203 paths")


if __name__ == "__main__":
    main()
