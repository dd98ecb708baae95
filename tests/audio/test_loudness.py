"""The level of a recording, every 10 ms."""

import numpy as np
import pytest
import torch

from ds2.audio.loudness import energies, levels

RATE = 8000


def test_levels_of_a_recording_in_slices_are_those_of_the_whole() -> None:
    samples = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, 8104).astype(np.float32))
    sliced = np.concatenate([energies(some, RATE) for some in samples.split(RATE // 4)])
    assert np.array_equal(levels(sliced, RATE), levels(energies(samples, RATE), RATE))


def test_levels_are_those_of_a_sine() -> None:
    time = torch.arange(RATE) / RATE
    found = levels(energies(0.5 * torch.sin(2 * torch.pi * 400 * time), RATE), RATE)
    assert len(found) == 100
    assert found[10] == pytest.approx(20 * np.log10(0.5) - 3.01, abs=0.05)
