"""Figures of a run over its epochs; epoch 0 is the model that training began from, which has errors only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds2.train.metrics import Epoch
from ds2.train.plots import BLUE, GREY, ORANGE, grid, styled, svg, whole_numbers
from ds2.utils.plots import save_png, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_curves(path: Path, runs: Mapping[str, Sequence[Epoch]]) -> None:
    """Draws loss, WER and PER over epochs, one colour for each run; nothing where matplotlib is not installed."""
    try:
        figure, (loss_axes, wer_axes) = subplots(1, 2, size=(11, 4))
    except ModuleNotFoundError:
        return
    for number, (name, history) in enumerate(runs.items()):
        style: Any = {"color": f"C{number}", "marker": "."}
        _over_epochs(loss_axes, history, "loss", label=f"{name} train".strip(), **style)
        _over_epochs(loss_axes, history, "dev_loss", label=f"{name} dev".strip(), linestyle="--", **style)
        for key, line in (("wer", "-"), ("per", "--")):
            _over_epochs(
                wer_axes, history, key, 100.0, label=f"{name} dev {key.upper()}".strip(), linestyle=line, **style
            )
    loss_axes.set(xlabel="epoch", ylabel="CTC loss per utterance, nats", yscale="log")
    wrong = any(epoch["wer"] for history in runs.values() for epoch in history)
    wer_axes.set(xlabel="epoch", ylabel="dev, without a language model, %", yscale="log" if wrong else "linear")
    for axes in (loss_axes, wer_axes):
        whole_numbers(axes)
        low, high = axes.get_ylim()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}" if high < 10 * low else "")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save_png(figure, path, dpi=120)


@styled
def curves(history: Sequence[Epoch]) -> str:
    """Loss, error rates, learning rate and throughput over epochs."""
    figure, axes = grid(4, 2.6)
    for key, colour, label in (("loss", BLUE, "train"), ("dev_loss", ORANGE, "dev")):
        _over_epochs(axes[0], history, key, label=label, color=colour, marker="o", ms=3)
    axes[0].set(title="loss, nats per utterance", yscale="log")
    axes[0].legend(frameon=False)
    for key, colour, label in (("wer", ORANGE, "words"), ("cer", GREY, "characters"), ("per", BLUE, "phones")):
        _over_epochs(axes[1], history, key, 100.0, label=label, color=colour, marker="o", ms=3)
    axes[1].set(title="dev errors without a language model, %", ylim=(0, None))
    axes[1].legend(frameon=False)
    _over_epochs(axes[2], history, "learning_rate", color=BLUE, marker="o", ms=3)
    axes[2].set(title="learning rate at the end of the epoch")
    trained = [epoch for epoch in history if "utterances_per_second" in epoch]
    speeds = [epoch["utterances_per_second"] for epoch in trained]
    axes[3].bar([epoch["epoch"] for epoch in trained], speeds, color=BLUE, alpha=0.6)
    axes[3].set(title="utterances per second")
    for chart in axes:
        chart.set_xlabel("epoch")
        whole_numbers(chart)
    return svg(figure)


def _over_epochs(axes: "Axes", history: Sequence[Epoch], key: str, factor: float = 1.0, **style: Any) -> None:
    """Draws one figure over the epochs that have it."""
    points = [(epoch["epoch"], factor * epoch[key]) for epoch in history if key in epoch]
    if points:
        axes.plot(*zip(*points, strict=True), **style)
