"""Alike vectors are found as by comparing each with each."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds2.data.near_duplicates import alike_pairs

CORRELATION, DIFFERENCE = 0.995, 0.06


def compared(vectors: np.ndarray, seconds: np.ndarray) -> set[tuple[int, int]]:
    """Each with each; in float64 a correlation of vectors in float16 is exact."""
    alike = vectors.astype(np.float64) @ vectors.astype(np.float64).T > CORRELATION
    alike &= np.abs(seconds[:, None] - seconds) <= DIFFERENCE
    return {(int(one), int(other)) for one, other in np.argwhere(np.triu(alike, 1))}


@settings(max_examples=50)
@example(seed=1095, size=236, noise=0.008)
@given(seed=st.integers(0, 2**16), size=st.integers(0, 400), noise=st.sampled_from([0.0, 0.003, 0.008, 0.02]))
def test_no_pair_is_lost_and_none_is_found_twice(seed: int, size: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    originals = rng.standard_normal((1 + size // 4, 100)).cumsum(1)
    vectors = np.repeat(originals - originals.mean(1, keepdims=True), 4, axis=0)[:size]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors += noise * rng.standard_normal(vectors.shape)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    seconds = np.repeat(rng.uniform(1, 3, 1 + size // 4), 4)[:size] + rng.uniform(0, 0.1, size)
    found = list(alike_pairs(vectors, seconds, CORRELATION, DIFFERENCE))
    assert len(found) == len(set(found))
    assert set(found) == compared(vectors, seconds)
