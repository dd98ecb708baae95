"""What a person sees of a training run: metrics.jsonl, a picture of the curves, TensorBoard where installed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ds2.files import whole_file

Epoch = dict[str, Any]  # one epoch's figures: epoch, step, loss, dev_loss, wer, cer, ...


def write_metrics(path: Path, history: Sequence[Epoch]) -> None:
    """One JSON line an epoch, all of them, whole: a resumed run leaves no epoch out and none twice."""
    with whole_file(path) as partial:
        partial.write_text("".join(json.dumps(epoch) + "\n" for epoch in history), encoding="utf-8")


def draw_curves(path: Path, runs: Mapping[str, Sequence[Epoch]]) -> None:
    """Loss and WER against epochs, one colour a run, as a PNG. Without matplotlib there is no picture."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (loss_axes, wer_axes) = pyplot.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for number, (name, history) in enumerate(runs.items()):
        colour = f"C{number}"
        epochs = [epoch["epoch"] for epoch in history]
        loss_axes.plot(epochs, [epoch["loss"] for epoch in history], colour, label=f"{name} train".strip())
        loss_axes.plot(
            epochs, [epoch["dev_loss"] for epoch in history], colour, linestyle="--", label=f"{name} dev".strip()
        )
        wer_axes.plot(
            epochs, [100 * epoch["wer"] for epoch in history], colour, marker="o", label=f"{name} dev".strip()
        )
    loss_axes.set(xlabel="epoch", ylabel="CTC loss per utterance, nats", yscale="log")
    wer_axes.set(xlabel="epoch", ylabel="dev WER, %", yscale="log")
    for axes in (loss_axes, wer_axes):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    with whole_file(path) as partial:
        figure.savefig(partial, format="png", dpi=120)
    pyplot.close(figure)


def write_tensorboard(folder: Path, epoch: Epoch) -> None:
    """Adds one epoch's figures to the TensorBoard log in `folder`, where TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return
    with SummaryWriter(str(folder), purge_step=epoch["step"]) as writer:
        for name, value in epoch.items():
            if isinstance(value, float):
                writer.add_scalar(name, value, epoch["step"])
