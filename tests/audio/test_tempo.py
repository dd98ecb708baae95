"""Tempo: the duration changes, the pitch does not, and nothing tears."""

import math

import pytest
import torch

from ds2.audio.tempo import change_tempo


def tone(seconds: float = 2.0, rate: int = 16000) -> torch.Tensor:
    return 0.3 * torch.sin(2 * math.pi * 220 * torch.arange(round(seconds * rate)) / rate)


@pytest.mark.parametrize("factor", [0.7, 0.9, 1.1, 1.5])
def test_duration_changes_and_pitch_and_level_stay(factor: float) -> None:
    changed = change_tempo(tone(), 16000, factor)
    assert len(changed) == round(32000 / factor)
    power = torch.fft.rfft(changed * torch.hann_window(len(changed))).abs().square()
    peak = int(power.argmax())
    assert peak * 16000 / len(changed) == pytest.approx(220, abs=1)
    assert power[peak - 3 : peak + 4].sum() / power.sum() > 0.999  # windows that meet out of phase would smear it
    assert changed.abs().max() == pytest.approx(0.3, abs=0.01)


def test_factor_one_and_sounds_shorter_than_two_windows_stay_as_they_are() -> None:
    assert torch.equal(change_tempo(tone(), 16000, 1.0), tone())
    assert torch.equal(change_tempo(tone(0.05), 16000, 1.2), tone(0.05))


def test_what_comes_first_stays_first() -> None:
    """A low tone then a high one: after halving the tempo the change lies at twice the time."""
    rate = 8000
    time = torch.arange(rate) / rate
    both = torch.cat([torch.sin(2 * math.pi * 200 * time), torch.sin(2 * math.pi * 1000 * time)])
    slow = change_tempo(both, rate, 0.5)
    for start, frequency in ((0.2, 200), (1.5, 200), (2.2, 1000), (3.5, 1000)):
        part = slow[round(start * rate) : round((start + 0.25) * rate)]
        assert torch.fft.rfft(part).abs().argmax() * rate / len(part) == pytest.approx(frequency, abs=5)
