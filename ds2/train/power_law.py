"""How the word error rate falls with more data: WER = factor * hours ** -exponent (Deep Speech 2, section 5.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Points = Sequence[tuple[float, float]]  # (hours, WER)
NOTHING_LEARNT = 0.95  # WER: points from here on are not fitted, since no WER is much higher with fewer hours


@dataclass(frozen=True)
class PowerLaw:
    """A straight line on logarithmic axes."""

    factor: float  # WER at one hour
    exponent: float  # above 0: more data, fewer errors
    residual: float  # root mean square of the distance from the line, in natural logarithms
    fitted: tuple[float, ...] = ()  # hours of the points that the line was fitted to

    @classmethod
    def fit(cls, points: Points) -> "PowerLaw":
        """The least squares line through the logarithms.

        Raises:
            ValueError: fewer than two different hours, or hours or a WER that are not positive.
        """
        if len({hours for hours, _ in points}) < 2 or any(hours <= 0 or wer <= 0 for hours, wer in points):
            raise ValueError(f"a power law needs two points of positive hours and WER, got {list(points)}")
        hours, wers = np.log(np.array(sorted(points), dtype=np.float64)).T
        slope, constant = np.polyfit(hours, wers, 1)
        residual = math.sqrt(float(np.mean((wers - slope * hours - constant) ** 2)))
        return cls(math.exp(constant), -float(slope), residual, tuple(sorted(hours for hours, _ in points)))

    def __call__(self, hours: float) -> float:
        """The error rate to expect of so many hours."""
        return float(self.factor * hours**-self.exponent)

    @property
    def tenfold(self) -> float:
        """Fraction of the errors that ten times the data remove; about 40 % in the paper."""
        return 1.0 - float(10.0**-self.exponent)


def fit_power_laws(series: Mapping[str, Points]) -> dict[str, PowerLaw]:
    """The line of each series that has two points or more below NOTHING_LEARNT; the others have none."""
    learnt = {name: [point for point in points if point[1] < NOTHING_LEARNT] for name, points in series.items()}
    return {name: PowerLaw.fit(points) for name, points in learnt.items() if len(points) > 1}
