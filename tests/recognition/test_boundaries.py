"""Words widened from peaks to the edges of their sound."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ds2.data.loudness import HOP, energies, levels
from ds2.recognition.boundaries import LATE, word_boundaries

RATE = 8000


def bursts(spans: list[tuple[float, float]], seconds: float, quiet: float = 1e-4) -> Tensor:
    """Noise that is loud within the spans."""
    samples = np.random.default_rng(0).normal(0, quiet, round(seconds * RATE))
    for start, end in spans:
        samples[round(start * RATE) : round(end * RATE)] *= 0.1 / quiet
    return torch.from_numpy(samples.astype(np.float32))


def level(samples: Tensor) -> np.ndarray:
    return levels(energies(samples, RATE), RATE)


def test_edges_of_two_bursts() -> None:
    spans = [(0.2, 0.5), (0.8, 1.3)]
    found = word_boundaries(level(bursts(spans, 2.0)), [(0.3, 0.36), (0.9, 1.0)])
    for (start, end), (true_start, true_end) in zip(found, spans, strict=True):
        assert start == pytest.approx(true_start, abs=0.021)
        assert end == pytest.approx(true_end, abs=0.021)


def test_words_without_a_gap_meet_where_it_is_quietest() -> None:
    samples = bursts([(0.2, 1.0)], 1.2)
    samples[round(0.58 * RATE) : round(0.62 * RATE)] *= 0.3
    (_, end), (start, _) = word_boundaries(level(samples), [(0.3, 0.4), (0.8, 0.9)])
    assert 0.55 < end <= start < 0.65


def test_silence_and_nothing() -> None:
    assert word_boundaries(level(torch.zeros(RATE)), []) == []
    [(start, end)] = word_boundaries(level(torch.zeros(RATE)), [(0.4, 0.5)])
    assert 0 <= start <= 0.5
    assert end <= 1.0


@given(st.lists(st.integers(0, 60), min_size=2, max_size=10).map(sorted), st.integers(0, 10**6))
def test_words_never_overlap_nor_lose_their_peaks(edges: list[int], seed: int) -> None:
    times = [edge * 0.03 for edge in edges[: len(edges) // 2 * 2]]
    peaks = list(zip(times[::2], times[1::2], strict=True))
    samples = torch.randn(2 * RATE, generator=torch.Generator().manual_seed(seed)) * 0.1
    found = word_boundaries(level(samples), peaks)
    for (start, end), (peak_start, peak_end) in zip(found, peaks, strict=True):
        assert start <= max(0.0, peak_start - LATE) + HOP
        assert end >= max(0.0, peak_end - LATE) - HOP
    for (_, end), (start, _) in itertools.pairwise(found):
        assert end <= start + HOP
