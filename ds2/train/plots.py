"""The pictures of a training report, each a string: SVG for lines, PNG as a data URI for images."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from torch import Tensor

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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
BANDS = ((0, 6, 0.12), (1, 5, 0.2), (2, 4, 0.35))  # percentiles 1-99, 10-90, 25-75 of seven, and their opacity


@matplotlib.rc_context(STYLE)
def curves(history: Sequence[Mapping[str, Any]]) -> str:
    """Loss, error rates, learning rate and throughput over epochs."""
    epochs = [epoch["epoch"] for epoch in history]
    figure, axes = grid(4, 2.6)
    axes[0].plot(epochs, [epoch["loss"] for epoch in history], color=BLUE, label="train")
    axes[0].plot(epochs, [epoch["dev_loss"] for epoch in history], color=ORANGE, label="dev")
    axes[0].set(title="loss, nats per utterance", yscale="log")
    axes[0].legend(frameon=False)
    axes[1].plot(epochs, [100 * epoch["wer"] for epoch in history], color=ORANGE, marker="o", ms=3, label="words")
    axes[1].plot(epochs, [100 * epoch["cer"] for epoch in history], color=GREY, marker="o", ms=3, label="characters")
    axes[1].set(title="dev errors, %", ylim=(0, None))
    axes[1].legend(frameon=False)
    axes[2].plot(epochs, [epoch["learning_rate"] for epoch in history], color=BLUE)
    axes[2].set(title="learning rate at the end of the epoch")
    axes[3].bar(epochs, [epoch["utterances_per_second"] for epoch in history], color=BLUE, alpha=0.6)
    axes[3].set(title="utterances per second")
    for chart in axes:
        chart.set_xlabel("epoch")
        chart.xaxis.set_major_locator(MaxNLocator(integer=True))
    return svg(figure)


@matplotlib.rc_context(STYLE)
def bands(epochs: Sequence[int], series: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """One small chart for each name: the percentiles of its values, from the outermost to the median, over epochs."""
    figure, axes = grid(len(series), 1.9)
    for chart, (name, values) in zip(axes, series.items(), strict=True):
        table = np.array(values)
        for low, high, opacity in BANDS:
            chart.fill_between(epochs, table[:, low], table[:, high], color=BLUE, alpha=opacity, linewidth=0)
        chart.plot(epochs, table[:, 3], color=BLUE, linewidth=1.2, marker="o" if len(epochs) == 1 else None)
        chart.set_title(name)
        chart.xaxis.set_major_locator(MaxNLocator(integer=True))
        chart.ticklabel_format(axis="y", scilimits=(-2, 3))
    return svg(figure)


@matplotlib.rc_context(STYLE)
def over_time(
    first: Mapping[str, Sequence[float]], last: Mapping[str, Sequence[float]], labels: tuple[str, str]
) -> str:
    """For each layer the norm of the gradient at every frame, at the first and the last epoch."""
    figure, axes = grid(len(last), 1.9)
    for chart, (name, values) in zip(axes, last.items(), strict=True):
        if labels[0] != labels[1]:
            chart.plot(first[name], color=GREY, linewidth=0.9, label=labels[0])
        chart.plot(values, color=ORANGE, linewidth=1.2, label=labels[1])
        chart.set(title=name, yscale="log", xlabel="frame")
    axes[0].legend(frameon=False)
    return svg(figure)


@matplotlib.rc_context(STYLE)
def alignment(posteriors: Tensor, tokens: Sequence[str], seconds: float) -> str:
    """(T, V) probabilities of an utterance: a line for every token that is ever likely, the blank behind them."""
    likely = [token for token in range(1, posteriors.shape[1]) if float(posteriors[:, token].max()) > 0.3]
    time = np.arange(len(posteriors)) * seconds
    figure, chart = pyplot.subplots(figsize=(11, 1.7), layout="constrained")
    chart.fill_between(time, posteriors[:, 0].float().numpy(), color="#e2e8f0", linewidth=0)
    for number, token in enumerate(likely):
        values = posteriors[:, token].float().numpy()
        chart.plot(time, values, color=f"C{number % 10}", linewidth=1.2)
        peaks = [t for t in range(len(values)) if values[t] > 0.3 and values[t] == values[max(0, t - 2) : t + 3].max()]
        for peak in peaks:
            chart.text(time[peak], values[peak] + 0.03, tokens[token].replace(" ", "␣"), ha="center", fontsize=8)
    chart.set(ylim=(0, 1.2), xlim=(0, time[-1] if len(time) > 1 else seconds), xlabel="seconds", yticks=[0, 0.5, 1])
    return png(figure)


@matplotlib.rc_context(STYLE)
def tiles(images: Tensor, columns: int, symmetric: bool, width: float = 11.0) -> str:
    """(N, F, T) as a sheet of small pictures, low frequencies at the bottom."""
    rows = -(-len(images) // columns)
    shape = images.shape[1] / images.shape[2]
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(width, min(14.0, rows * (width / columns * shape + 0.05))), squeeze=False
    )
    figure.subplots_adjust(0, 0, 1, 1, 0.04, 0.06)
    for chart in axes.flat:
        chart.axis("off")
    for chart, image in zip(axes.flat, images.float().numpy(), strict=False):
        top = float(np.abs(image).max()) or 1.0
        limits = {"cmap": "RdBu_r", "vmin": -top, "vmax": top} if symmetric else {"cmap": "magma", "vmin": 0}
        chart.imshow(image, origin="lower", aspect="auto", **limits)
    return png(figure)


@matplotlib.rc_context(STYLE)
def histogram(values: Sequence[float], label: str) -> str:
    figure, chart = pyplot.subplots(figsize=(4.2, 1.8), layout="constrained")
    chart.hist(values, bins=40, color=BLUE, alpha=0.7)
    chart.set(xlabel=label, ylabel="utterances")
    return svg(figure)


def grid(count: int, height: float) -> tuple[Figure, list[Axes]]:
    rows = max(1, -(-count // COLUMNS))
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(11, height * rows), layout="constrained", squeeze=False)
    for chart in axes.flat[count:]:
        chart.remove()
    for chart in axes.flat[:count]:
        chart.grid(axis="y")
    return figure, list(axes.flat[:count])


def svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True)
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def png(figure: Figure) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100)
    pyplot.close(figure)
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'
