"""The figures of curation."""

import numpy as np
import pytest
import torch

from ds2.curation.plots import SPECTROGRAM_HEIGHT, WAVE, WAVE_HEIGHT, WIDTH, spectrogram, waveform


def test_the_waveform_of_a_ramp_rises() -> None:
    picture = waveform(np.linspace(-1, 1, 7200, dtype=np.float32))
    assert picture.shape == (WAVE_HEIGHT, WIDTH, 3)
    inked = (picture == WAVE).all(axis=2)
    assert inked[-1, 0]
    assert inked[0, -1]
    assert not inked[0, 0]


def test_the_spectrogram_of_a_tone_is_bright_at_its_height() -> None:
    time = torch.arange(16000) / 8000
    brightness = spectrogram(torch.sin(2 * torch.pi * 1000 * time), 8000).sum(axis=(1, 2))
    assert brightness.argmax() == pytest.approx(SPECTROGRAM_HEIGHT * 0.75, abs=2)  # 1 of 4 kHz, from below
