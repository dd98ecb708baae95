"""The paper's two figures of Batch Dispatch: batch sizes by load, latency by load."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

from ds2.serve.load_test import Outcome
from ds2.utils.files import atomic_write

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def draw_batches(path: Path, outcomes: Sequence[Outcome]) -> None:
    """The probability of each batch size, one line for each number of streams."""
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for outcome in outcomes:
        sizes = sorted(size for size in outcome.batches if size <= 20)
        total = max(1.0, sum(outcome.batches.values()))
        axes.plot(
            sizes, [outcome.batches[size] / total for size in sizes], "o-", ms=3, label=f"{outcome.streams} streams"
        )
    axes.set(xlabel="streams in a batch", ylabel="probability", ylim=(0, None))
    axes.legend(frameon=False)
    _save(path, figure)


def draw_latencies(path: Path, policies: Mapping[str, Sequence[Outcome]]) -> None:
    """Median and 98 % against the number of streams, a colour for each policy."""
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for number, (policy, outcomes) in enumerate(policies.items()):
        streams = [outcome.streams for outcome in outcomes]
        for share, style in ((0.98, "o-"), (0.5, "o--")):
            values = [outcome.percentile(share) for outcome in outcomes]
            axes.plot(streams, values, style, ms=3, color=f"C{number}", label=f"{policy}, {share:.0%}")
    axes.axhline(100, color="0.8", lw=1, zorder=0)
    axes.set(xlabel="streams in real time", ylabel="latency from end of utterance, ms", yscale="log")
    axes.legend(frameon=False, fontsize=8)
    _save(path, figure)


def _save(path: Path, figure: "plt.Figure") -> None:
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=150)
    plt.close(figure)
