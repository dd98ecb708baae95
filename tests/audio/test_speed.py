"""Speed perturbation."""

import math

import pytest
import torch

from ds2.audio.speed import change_speed
from ds2.audio.tensors import resample


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_plays_faster_and_higher(factor: float) -> None:
    """As soxr resamples, but for the edges and 50 dB."""
    samples = torch.sin(2 * math.pi * 500 / 16000 * torch.arange(16000))
    changed = change_speed(samples, 16000, factor)
    assert len(changed) == math.ceil(16000 / factor)
    expected = resample(samples, round(16000 * factor), 16000)
    inner = slice(500, len(expected) - 500)
    assert float((changed[inner] - expected[inner]).abs().max()) < 10 ** (-50 / 20)


def test_factor_one_is_the_same_sound() -> None:
    samples = torch.randn(100)
    assert change_speed(samples, 16000, 1.0) is samples
