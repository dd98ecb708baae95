"""The search for lm_weight and word_bonus: a coarse grid first, then finer grids around the best point so far.

round 1   o   o   o   o   o      round 2   o o o o o      the error of a point is measured once, however many
          o   o   o   o   o                o o o o o      grids hold it
          o   o  [o]  o   o                o o[o]o o
"""

import math
from collections.abc import Callable, Mapping

Point = tuple[float, float]  # lm_weight, word_bonus


def coarse_to_fine(
    measure: Callable[[Point], float], low: Point, high: Point, steps: int = 5, rounds: int = 3
) -> Mapping[Point, float]:
    """Measures `steps` x `steps` points between `low` and `high`, then as many in half the range around the best point.

    Returns the error of every point, in the order of measurement. No point is below `low` or above `high`.
    """
    errors: dict[Point, float] = {}
    centre = ((low[0] + high[0]) / 2, (low[1] + high[1]) / 2)
    for number in range(rounds):
        bottom, top = around(centre, low, high, number)
        axes = [_axis(bottom[i], top[i], steps) for i in (0, 1)]
        for point in [(weight, bonus) for weight in axes[0] for bonus in axes[1]]:
            if point not in errors:
                errors[point] = measure(point)
        centre = best(errors)
    return errors


def around(centre: Point, low: Point, high: Point, rounds: int) -> tuple[Point, Point]:
    """The lowest and highest point of the window that comes after so many rounds; it may end at `low` or `high`."""
    reach = [(high[i] - low[i]) / 2 ** (rounds + 1) for i in (0, 1)]
    bottom = max(centre[0] - reach[0], low[0]), max(centre[1] - reach[1], low[1])
    return bottom, (min(centre[0] + reach[0], high[0]), min(centre[1] + reach[1], high[1]))


def best(errors: Mapping[Point, float]) -> Point:
    """The point with the smallest error; among equal points the most central, as an edge may not hold elsewhere."""
    least = min(errors.values())
    equal = [point for point, error in errors.items() if error == least]
    middle = [sum(axis) / len(equal) for axis in zip(*equal, strict=True)]
    return min(equal, key=lambda point: math.dist(point, middle))


def _axis(low: float, high: float, steps: int) -> list[float]:
    return sorted({round(low + (high - low) * step / (steps - 1), 6) for step in range(steps)})
