"""The search on grids that become finer."""

import pytest

from ds2.recognition.grid_search import best, coarse_to_fine


def test_finds_the_bottom_of_a_bowl() -> None:
    errors = coarse_to_fine(lambda p: (p[0] - 0.85) ** 2 + (p[1] - 1.1) ** 2, (0.0, -2.0), (2.4, 4.0))
    assert best(errors) == pytest.approx((0.85, 1.1), abs=0.2)


def test_no_point_is_measured_twice_or_lies_outside() -> None:
    seen = []

    def measure(point: tuple[float, float]) -> float:
        seen.append(point)
        return point[0] + point[1]  # the best point is a corner

    errors = coarse_to_fine(measure, (0.0, -1.0), (1.0, 1.0))
    assert len(seen) == len(set(seen)) == len(errors)
    assert best(errors) == (0.0, -1.0)
    assert all(0 <= weight <= 1 and -1 <= bonus <= 1 for weight, bonus in seen)


def test_of_equal_points_the_middle_one() -> None:
    """A corner may be the best by chance."""
    assert best(coarse_to_fine(lambda _: 0.0, (0.0, 0.0), (1.0, 1.0), rounds=1)) == (0.5, 0.5)
    assert best({(0.0, 0.0): 1.0, (1.0, 0.0): 0.5, (1.0, 1.0): 0.5, (1.0, 2.0): 0.5}) == (1.0, 1.0)
