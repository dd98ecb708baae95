"""How the word error rate falls with more data: WER = factor * hours ** -exponent (Deep Speech 2, section 5.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.utils.files import atomic_write

Points = Sequence[tuple[float, float]]  # (hours, WER)
NOTHING_LEARNT = 0.95  # WER from which on a point is of no line: it could not be much higher with fewer hours


@dataclass(frozen=True)
class PowerLaw:
    """A straight line on logarithmic axes."""

    factor: float  # WER at one hour
    exponent: float  # above 0: more data, fewer errors
    residual: float  # root mean square of the distance from the line, in natural logarithms

    @classmethod
    def fit(cls, points: Points) -> "PowerLaw":
        """The least squares line through the logarithms.

        Raises:
            ValueError: fewer than two different hours, or hours or a WER that are not positive.
        """
        if len({hours for hours, _ in points}) < 2 or any(hours <= 0 or wer <= 0 for hours, wer in points):
            raise ValueError(f"a power law needs two points of positive hours and WER, got {list(points)}")
        hours, wers = np.log(np.array(points, dtype=np.float64)).T
        slope, constant = np.polyfit(hours, wers, 1)
        residual = math.sqrt(float(np.mean((wers - slope * hours - constant) ** 2)))
        return cls(math.exp(constant), -float(slope), residual)

    def __call__(self, hours: float) -> float:
        return float(self.factor * hours**-self.exponent)

    @property
    def tenfold(self) -> float:
        """Share of the errors that ten times the data take away; the paper's systems lose about 40 %."""
        return 1.0 - float(10.0**-self.exponent)


def draw_power_laws(path: Path, series: Mapping[str, Points]) -> dict[str, PowerLaw]:
    """Draws each series of points with its line on logarithmic axes, into a PNG; the lines.

    Points from NOTHING_LEARNT on are drawn, but are of no line; a series that has fewer than two others has none.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    fitted = {name: sorted(point for point in points if point[1] < NOTHING_LEARNT) for name, points in series.items()}
    laws = {name: PowerLaw.fit(points) for name, points in fitted.items() if len(points) > 1}
    figure, axes = pyplot.subplots(figsize=(6.5, 4.5), constrained_layout=True)
    for number, (name, points) in enumerate(series.items()):
        label = name
        if law := laws.get(name):
            label = f"{name}: {100 * law.factor:.1f} % · hours^-{law.exponent:.2f}"
            ends = [fitted[name][0][0] / 1.5, fitted[name][-1][0] * 1.5]
            axes.plot(ends, [100 * law(end) for end in ends], color=f"C{number}", linewidth=1, linestyle="--")
        rates = [100 * wer for _, wer in points]
        axes.plot([hours for hours, _ in points], rates, "o", color=f"C{number}", label=label)
    axes.set(xscale="log", yscale="log", xlabel="hours of training data", ylabel="word error rate, %")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(which="both", color="#e4e7eb")
    axes.legend()
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=100)
    pyplot.close(figure)
    return laws
