"""The line through WER by hours."""

import pytest

from ds2.train.power_law import PowerLaw, fit_power_laws


def test_a_power_law_is_found() -> None:
    law = PowerLaw.fit([(hours, 0.3 * hours**-0.25) for hours in (0.1, 1, 2, 5, 10)])
    assert law.factor == pytest.approx(0.3)
    assert law.exponent == pytest.approx(0.25)
    assert law.residual == pytest.approx(0, abs=1e-9)
    assert law(100) == pytest.approx(0.3 * 100**-0.25)
    assert law.tenfold == pytest.approx(1 - 10**-0.25)


def test_the_papers_own_figures_fall_by_about_forty_percent_for_ten_times_the_data() -> None:
    """Deep Speech 2, table 10: hours and WER of the regular development set."""
    law = PowerLaw.fit([(120, 29.23), (1200, 13.80), (2400, 11.65), (6000, 9.51), (12000, 8.46)])
    assert law.tenfold == pytest.approx(0.45, abs=0.05)


@pytest.mark.parametrize("points", [[], [(1.0, 0.5)], [(1.0, 0.5), (1.0, 0.4)], [(1.0, 0.5), (2.0, 0.0)]])
def test_points_without_a_line_are_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="power law needs"):
        PowerLaw.fit(points)


def test_a_model_that_learnt_nothing_is_on_no_line() -> None:
    points = [(hours, 0.3 * hours**-0.25) for hours in (0.1, 1, 10)]
    series = {"regular": [(0.01, 1.0), *points], "noisy": [(0.01, 1.0), (0.1, 0.95), (1, 0.8)]}
    laws = fit_power_laws(series)
    assert laws.keys() == {"regular"}
    assert laws["regular"].exponent == pytest.approx(0.25)
