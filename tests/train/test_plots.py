"""The figures of training."""

from pathlib import Path

import pytest

from ds2.train.curves import curves, draw_curves
from ds2.train.metrics import FIGURES
from ds2.train.plots import draw_power_laws, draw_rates
from ds2.train.power_law import fit_power_laws

PNG = b"\x89PNG"


def test_power_laws_are_drawn(tmp_path: Path) -> None:
    points = [(1.0, 0.4), (10.0, 0.2)]
    series = {"regular": points, "noisy": [(h, 2 * w) for h, w in points], "too few": [(1.0, 0.9)]}
    laws = fit_power_laws(series)
    draw_power_laws(tmp_path / "laws.png", series, laws)
    assert laws["noisy"].factor == pytest.approx(2 * laws["regular"].factor)
    assert (tmp_path / "laws.png").read_bytes().startswith(PNG)


def test_curves_and_rates_are_drawn(tmp_path: Path) -> None:
    start = {"epoch": 0, "dev_loss": 3.0, "wer": 0.5, "cer": 0.2}
    history = [start, *(dict.fromkeys(FIGURES, number) for number in (1, 2))]
    draw_curves(tmp_path / "curves.png", {"": history})
    assert "<svg" in curves(history)
    draw_rates(tmp_path / "rates.png", [1e-6, 1e-3, 1.0], [2.0, 1.0, 4.0], 1e-4)
    for name in ("curves.png", "rates.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)


def test_drawing_leaves_the_callers_back_end_and_figures_alone(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    backend, figures = matplotlib.get_backend(), pyplot.get_fignums()
    draw_rates(tmp_path / "rates.png", [1e-6, 1.0], [2.0, 1.0], 1e-4)
    assert matplotlib.get_backend() == backend
    assert pyplot.get_fignums() == figures
