"""The two figures of the paper about Batch Dispatch: batch sizes by load, latency by load."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ds2.serve.load_test import LoadResult
from ds2.utils.plots import save_png, subplots

SIZE = (6.0, 3.5)  # inches


def draw_batches(path: Path, outcomes: Sequence[LoadResult]) -> None:
    """Draws the probability that a chunk runs in a batch of each size, one line for each number of streams."""
    figure, axes = subplots(size=SIZE)
    for outcome in outcomes:
        shown = {size: share for size, share in outcome.batch_probabilities.items() if size <= 20}
        axes.plot(list(shown), list(shown.values()), "o-", ms=3, label=f"{outcome.streams} streams")
    axes.set(xlabel="streams in a batch", ylabel="probability", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    save_png(figure, path)


def draw_latencies(path: Path, policies: Mapping[str, Sequence[LoadResult]]) -> None:
    """Draws median and 98 % of the latency against the number of streams, a colour for each policy."""
    figure, axes = subplots(size=SIZE)
    for number, (policy, outcomes) in enumerate(policies.items()):
        streams = [outcome.streams for outcome in outcomes]
        for fraction, style in ((0.98, "o-"), (0.5, "o--")):
            values = [outcome.percentile(fraction) for outcome in outcomes]
            axes.plot(streams, values, style, ms=3, color=f"C{number}", label=f"{policy}, {fraction:.0%}")
    axes.axhline(100, color="0.8", lw=1, zorder=0)
    axes.set(xlabel="streams in real time", ylabel="latency from end of utterance, ms", yscale="log")
    axes.legend(frameon=False, fontsize=8)
    save_png(figure, path)
