"""The level of a recording, every 10 ms."""

import numpy as np
import pytest

from ds2.audio.loudness import energies, levels

RATE = 8000


def test_levels_of_a_recording_in_slices_are_those_of_the_whole() -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 8104).astype(np.float32)
    parts = np.split(samples, range(RATE // 4, len(samples), RATE // 4))
    sliced = np.concatenate([energies(part, RATE) for part in parts])
    assert np.array_equal(levels(sliced, RATE), levels(energies(samples, RATE), RATE))


@pytest.mark.parametrize("rate", [8000, 11025, 16000])
def test_the_energies_of_all_bands_are_those_of_the_samples(rate: int) -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, 40 * round(rate / 100))
    expected = np.square(samples).reshape(40, -1).sum(1)
    assert energies(samples, rate).sum(1) == pytest.approx(expected)


def sine(frequency: float, amplitude: float) -> np.ndarray:
    """In the second quarter of two seconds."""
    time = np.arange(2 * RATE) / RATE
    return amplitude * np.sin(2 * np.pi * frequency * time) * ((time >= 0.5) & (time < 1.0))


def test_levels_are_those_of_a_sine() -> None:
    noise = np.random.default_rng(0).normal(0, 1e-3, 2 * RATE)
    found = levels(energies(noise + sine(400, 0.5), RATE), RATE)
    assert len(found) == 200
    assert found[60:90] == pytest.approx(20 * np.log10(0.5) - 3.01, abs=0.05)
    assert found[:40].max() < -50


def test_digital_silence_has_the_lowest_level() -> None:
    assert np.all(levels(energies(np.zeros(RATE), RATE), RATE) == -100)
    assert np.all(levels(energies(sine(400, 0.5), RATE), RATE)[[0, 40, 110, 199]] == pytest.approx(-100))


def test_a_sine_stands_out_of_noise_that_is_as_loud() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 2 * RATE)
    both = levels(energies(noise + sine(400, 0.1), RATE), RATE)
    alone = levels(energies(noise, RATE), RATE)
    assert np.median(both[55:95]) > np.median(alone) + 4
    assert np.median(both[105:]) == pytest.approx(np.median(alone), abs=1)
    assert -33 < np.median(alone) < -23
