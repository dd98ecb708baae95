"""Figures of training: PNG files, and the charts of the report as strings (SVG, or PNG as a data URI)."""

import base64
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from torch import Tensor

from ds2.utils.plots import save_png, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from optuna.trial import FrozenTrial

    from ds2.train.power_law import Points, PowerLaw

BLUE, ORANGE, GREY = "#2563eb", "#ea580c", "#64748b"
STYLE: Any = {
    "axes.edgecolor": "#cbd5e1",
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": "#0f172a",
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": "sans-serif",
    "font.size": 8,
    "grid.color": "#e2e8f0",
    "svg.fonttype": "none",
    "xtick.color": GREY,
    "ytick.color": GREY,
}
COLUMNS = 4  # of small charts
WIDTH = 11.0  # inches of a figure of the report
TIMELINE_COLOURS = {
    "data": "#8c6bb1",
    "forward": "#41ab5d",
    "backward": "#2171b5",
    "communication": "#e6550d",
    "waiting": "#bdbdbd",
    "update": "#fec44f",
}
BANDS = ((0, 6, 0.12), (1, 5, 0.2), (2, 4, 0.35))  # percentiles 1-99, 10-90, 25-75 of seven, and their opacity

Parameters = ParamSpec("Parameters")
Span = tuple[str, float, float]  # kind, begin and end in seconds


def styled(draw: Callable[Parameters, str]) -> Callable[Parameters, str]:
    """A function that draws in the report's STYLE."""

    @functools.wraps(draw)
    def in_style(*arguments: Parameters.args, **options: Parameters.kwargs) -> str:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*arguments, **options)

    return in_style


def draw_rates(path: Path, rates: Sequence[float], losses: Sequence[float], suggestion: float) -> None:
    """Draws the smoothed losses of a range test over its learning rates."""
    figure, axes = subplots(size=(7, 4))
    axes.plot(rates, losses)
    axes.axvline(suggestion, color="C1", linestyle="--", label=f"suggestion {suggestion:.1e}")
    axes.set(xscale="log", xlabel="learning rate", ylabel="loss, smoothed, nats per frame")
    axes.legend()
    save_png(figure, path, dpi=110)


def draw_power_laws(path: Path, series: "Mapping[str, Points]", laws: "Mapping[str, PowerLaw]") -> None:
    """Draws each series of (hours, WER) points on logarithmic axes, with its line where it has one."""
    figure, axes = subplots(size=(6.5, 4.5))
    for number, (name, points) in enumerate(series.items()):
        label = name
        if law := laws.get(name):
            label = f"{name}: {100 * law.factor:.1f} % · hours^-{law.exponent:.2f}"
            ends = [min(law.fitted) / 1.5, max(law.fitted) * 1.5]
            axes.plot(ends, [100 * law(end) for end in ends], color=f"C{number}", linewidth=1, linestyle="--")
        rates = [100 * wer for _, wer in points]
        axes.plot([hours for hours, _ in points], rates, "o", color=f"C{number}", label=label)
    axes.set(xscale="log", yscale="log", xlabel="hours of training data", ylabel="word error rate, %")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.set_xticks(sorted({hours for points in series.values() for hours, _ in points}))
    axes.xaxis.set_major_formatter("{x:.3g}")
    axes.xaxis.set_minor_formatter("")
    axes.grid(which="both", color="#e4e7eb")
    axes.legend()
    save_png(figure, path, dpi=100)


def draw_importance(path: Path, importance: dict[str, float], trials: "Sequence[FrozenTrial]") -> None:
    """Draws a bar for each key of a search, and beside it dev WER over its values, a dot for each trial."""
    count = 1 + len(importance)
    figure, axes = subplots(1, count, size=(4 * count, 3.5), squeeze=False)
    bars, *charts = axes[0]
    bars.barh(list(importance), list(importance.values()), color="#2171b5")
    bars.invert_yaxis()
    bars.set(title="importance", xlim=(0, 1))
    for chart, key in zip(charts, importance, strict=True):
        values = [trial.params[key] for trial in trials]
        numeric = all(type(value) in (int, float) for value in values)
        wers = [100 * (trial.value or 0) for trial in trials]
        chart.plot(values if numeric else [str(value) for value in values], wers, "o")
        chart.set(xlabel=key, ylabel="dev WER, %")
        if numeric and 0 < 10 * min(values) <= max(values):
            chart.set_xscale("log")
            chart.tick_params(axis="x", which="minor", labelbottom=False)  # minor labels would overlap
        chart.grid(alpha=0.3)
    save_png(figure, path, dpi=110)


def draw_timeline(path: Path, runs: Mapping[str, Sequence[Sequence[Span]]]) -> None:
    """Draws a row for each rank, labelled with its run; communication is a thin bar over what it is part of."""
    from matplotlib.patches import Patch

    rows = sum(len(ranks) for ranks in runs.values())
    figure, axes = subplots(size=(12, 0.8 + 0.5 * rows))
    labels, row = [], 0
    for name, ranks in runs.items():
        start = min(recorded[0][1] for recorded in ranks)
        for number, recorded in enumerate(ranks):
            for kind, begin, end in recorded:
                low, height = (row - 0.15, 0.3) if kind == "communication" else (row - 0.4, 0.8)
                colour = TIMELINE_COLOURS[kind]
                axes.broken_barh([(begin - start, end - begin)], (low, height), facecolor=colour, linewidth=0)
            labels.append(f"{name}, rank {number}")
            row += 1
    axes.set_yticks(range(rows), labels)
    axes.invert_yaxis()
    axes.set(xlabel="seconds", xlim=(0, None))
    axes.spines[["top", "right", "left"]].set_visible(False)
    handles = [Patch(color=colour, label=kind) for kind, colour in TIMELINE_COLOURS.items()]
    axes.legend(handles=handles, ncols=len(handles), loc="upper center", bbox_to_anchor=(0.5, 1.25), frameon=False)
    save_png(figure, path, dpi=110)


@styled
def bands(epochs: Sequence[int], series: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """One small chart for each name: the percentiles of its values, from the outermost to the median, over epochs."""
    figure, axes = grid(len(series), 1.9)
    for chart, (name, values) in zip(axes, series.items(), strict=True):
        table = np.array(values)
        for low, high, opacity in BANDS:
            chart.fill_between(epochs, table[:, low], table[:, high], color=BLUE, alpha=opacity, linewidth=0)
        chart.plot(epochs, table[:, 3], color=BLUE, linewidth=1.2, marker="o" if len(epochs) == 1 else None)
        chart.set_title(name)
        whole_numbers(chart)
        chart.ticklabel_format(axis="y", scilimits=(-2, 3))
    return svg(figure)


@styled
def gradient_norm_chart(
    first: Mapping[str, Sequence[float]], last: Mapping[str, Sequence[float]], labels: tuple[str, str]
) -> str:
    """Draws for each layer the norm of the gradient at every frame, at the first and the last epoch."""
    figure, axes = grid(len(last), 1.9)
    for chart, (name, values) in zip(axes, last.items(), strict=True):
        if labels[0] != labels[1]:
            chart.plot(first[name], color=GREY, linewidth=0.9, label=labels[0])
        chart.plot(values, color=ORANGE, linewidth=1.2, label=labels[1])
        chart.set(title=name, yscale="log", xlabel="frame")
    axes[0].legend(frameon=False)
    return svg(figure)


@styled
def alignment_chart(posteriors: Tensor, tokens: Sequence[str], seconds: float) -> str:
    """(T, V) probabilities of an utterance: a line for every token that is ever likely, the blank as a grey area."""
    likely = [token for token in range(1, posteriors.shape[1]) if float(posteriors[:, token].max()) > 0.3]
    time = np.arange(len(posteriors)) * seconds
    figure, chart = subplots(size=(WIDTH, 1.7))
    chart.fill_between(time, posteriors[:, 0].float().numpy(), color="#e2e8f0", linewidth=0)
    for number, token in enumerate(likely):
        values = posteriors[:, token].float().numpy()
        chart.plot(time, values, color=f"C{number % 10}", linewidth=1.2)
        peaks = [t for t in range(len(values)) if values[t] > 0.3 and values[t] == values[max(0, t - 2) : t + 3].max()]
        for peak in peaks:
            chart.text(time[peak], values[peak] + 0.03, tokens[token].replace(" ", "␣"), ha="center", fontsize=8)
    chart.set(ylim=(0, 1.2), xlim=(0, time[-1] if len(time) > 1 else seconds), xlabel="seconds", yticks=[0, 0.5, 1])
    return png(figure)


@styled
def tiles(images: Tensor, columns: int, symmetric: bool) -> str:
    """(N, F, T) as a sheet of small images, low frequencies at the bottom."""
    rows = -(-len(images) // columns)
    shape = images.shape[1] / images.shape[2]
    height = min(14.0, rows * (WIDTH / columns * shape + 0.05))
    figure, axes = subplots(rows, columns, size=(WIDTH, height), squeeze=False)
    figure.set_layout_engine("constrained", w_pad=0, h_pad=0, wspace=0.04, hspace=0.06)
    for chart in axes.flat:
        chart.axis("off")
    for chart, image in zip(axes.flat, images.float().numpy(), strict=False):
        top = float(np.abs(image).max()) or 1.0
        limits = {"cmap": "RdBu_r", "vmin": -top, "vmax": top} if symmetric else {"cmap": "magma", "vmin": 0}
        chart.imshow(image, origin="lower", aspect="auto", **limits)
    return png(figure)


@styled
def histogram(values: Sequence[float], label: str) -> str:
    """The numbers of utterances by a value, as SVG."""
    figure, chart = subplots(size=(4.2, 1.8))
    chart.hist(values, bins=40, color=BLUE, alpha=0.7)
    chart.set(xlabel=label, ylabel="utterances")
    return svg(figure)


def whole_numbers(chart: "Axes") -> None:
    """Labels whole epochs only."""
    from matplotlib.ticker import MaxNLocator

    chart.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def grid(count: int, height: float) -> "tuple[Figure, list[Axes]]":
    """`count` small charts, COLUMNS in a row, each `height` inches high."""
    rows = max(1, -(-count // COLUMNS))
    figure, axes = subplots(rows, COLUMNS, size=(WIDTH, height * rows), squeeze=False)
    for chart in axes.flat[count:]:
        chart.remove()
    for chart in axes.flat[:count]:
        chart.grid(axis="y")
    return figure, list(axes.flat[:count])


def svg(figure: "Figure") -> str:
    """The figure as SVG for a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True)
    return text.getvalue()[text.getvalue().index("<svg") :]


def png(figure: "Figure") -> str:
    """The figure as an HTML image."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100)
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'
