"""The figures of curation."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ds2.curation.classifier import Classifier
from ds2.curation.filter import FilterReport
from ds2.curation.plots import SPECTROGRAM_HEIGHT, WAVE, WAVE_HEIGHT, WIDTH, draw_filter, spectrogram, waveform


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


def test_the_filter_is_drawn_with_and_without_labels(tmp_path: Path) -> None:
    classifier = Classifier((0.0,) * 6, (1.0,) * 6, (0.5,) * 6, 0.0)
    values = (20, 5, 0.1, 0.0, 0.9, 0.9, 0.2, 0.1, 0.9, 0.12)
    curve = [(0.1, 0.0), (1.0, 0.2)]
    reports = [
        FilterReport("checked segments", *values, 0.9, classifier, [(0.0, 0.0), (1.0, 1.0)], curve),
        FilterReport("the model's own transcripts", *values, None, classifier, [], curve),
        FilterReport("the alignment", *values, None, None, [], curve),
    ]
    for report, panels in zip(reports, (3, 2, 1), strict=True):
        draw_filter(tmp_path / "filter.svg", report)
        assert (tmp_path / "filter.svg").read_text().count('id="axes_') == panels
        assert ("held out" in (tmp_path / "filter.svg").read_text()) == (panels > 1)
        assert ("ROC" in (tmp_path / "filter.svg").read_text()) == (panels == 3)
