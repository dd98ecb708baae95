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
        axes = [_axis(centre[i], (high[i] - low[i]) / 2**number, low[i], high[i], steps) for i in (0, 1)]
        for point in [(weight, bonus) for weight in axes[0] for bonus in axes[1]]:
            if point not in errors:
                errors[point] = measure(point)
        centre = best(errors)
    return errors


def best(errors: Mapping[Point, float]) -> Point:
    """The point with the smallest error; among equal points the most central, as an edge may not hold elsewhere."""
    least = min(errors.values())
    equal = [point for point, error in errors.items() if error == least]
    middle = [sum(axis) / len(equal) for axis in zip(*equal, strict=True)]
    return min(equal, key=lambda point: math.dist(point, middle))


def _axis(centre: float, extent: float, low: float, high: float, steps: int) -> list[float]:
    places = [centre + extent * (step / (steps - 1) - 0.5) for step in range(steps)]
    return sorted({round(min(max(place, low), high), 6) for place in places})
