"""Figures."""

from pathlib import Path

import matplotlib

from ds2.utils.plots import save_png, subplots


def test_drawing_leaves_the_callers_back_end_alone(tmp_path: Path) -> None:
    matplotlib.use("svg")
    figure, axes = subplots(1, 2, size=(4, 2))
    axes[0].plot([0, 1])
    save_png(figure, tmp_path / "figure.png")
    assert matplotlib.get_backend() == "svg"
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
