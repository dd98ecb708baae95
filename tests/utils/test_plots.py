"""Figures."""

import warnings
from pathlib import Path

import matplotlib
import pytest

from ds2.utils.plots import save_png, subplots


def test_drawing_leaves_the_callers_back_end_alone(tmp_path: Path) -> None:
    matplotlib.use("svg")
    figure, axes = subplots(1, 2, size=(4, 2))
    axes[0].plot([0, 1])
    save_png(figure, tmp_path / "figure.png")
    assert matplotlib.get_backend() == "svg"
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_letters_that_no_font_has_are_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not one of matplotlib's for each of them. No font has the last letters of Unicode's private plane."""
    figure, axes = subplots(size=(2, 2))
    axes.set_title("\U0010fffd \U0010fffc")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_png(figure, tmp_path / "a.png")
    assert not caught
    assert caplog.messages == [
        f"{tmp_path / 'a.png'}: no font here has some of its letters; install one, such as fonts-noto-cjk"
    ]
