"""Pictures of what the filter learnt and of what a corpus consists of."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ds2.curation.score import FEATURES
from ds2.utils.files import atomic_write

if TYPE_CHECKING:
    from ds2.curation.filter import FilterReport

INK, GOOD, BAD, PALE = "#1f2933", "#1b998b", "#e4572e", "#9aa5b1"
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "axes.axisbelow": True,
    "svg.fonttype": "none",  # text stays text
}


def draw_filter(path: Path, report: "FilterReport") -> None:
    """ROC curve, WER against the share kept, and the coefficients, side by side; PNG or SVG by the path's ending."""
    with _pyplot() as pyplot:
        figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(11, 3.2), constrained_layout=True)
        left.plot(*zip(*report.roc, strict=True), color=GOOD, linewidth=2)
        left.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle=":")
        left.set(xlabel="good ones called bad", ylabel="bad ones found", title=f"ROC, area {report.area:.3f}")
        shares, wers = (np.array(values) for values in zip(*report.curve, strict=True))
        middle.plot(100 * shares, 100 * wers, color=GOOD, linewidth=2)
        here = (100 * report.examples_kept, 100 * report.wer_after)
        middle.plot(*here, "o", color=BAD, markersize=7)
        label = f"{report.wer_after:.1%} at {report.examples_kept:.0%}"
        middle.annotate(label, here, (-6, 8), textcoords="offset points", ha="right", color=BAD)
        middle.set(xlabel="examples kept, %", ylabel="WER of transcripts, %", title="Kept against WER", xlim=(0, 101))
        middle.set_ylim(bottom=0)
        weights = report.classifier.weights
        right.barh(FEATURES[::-1], weights[::-1], color=[BAD if weight > 0 else GOOD for weight in weights[::-1]])
        right.set(xlabel="log odds of bad, per deviation", title="Coefficients")
        _save(figure, path)


def draw_corpus(path: Path, segments: list[Any]) -> None:
    """Lengths of the segments, and how certain the filter is of them, kept and rejected apart."""
    with _pyplot() as pyplot:
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 2.6), constrained_layout=True)
        groups = [[each for each in segments if each.extra["kept"] is kept] for kept in (True, False)]
        names, colours = ["kept", "rejected"], [GOOD, BAD]
        for axes, values, label in (
            (left, [[each.duration for each in group] for group in groups], "seconds"),
            (right, [np.clip([each.extra["odds"] for each in group], -10, 10) for group in groups], "log odds of bad"),
        ):
            axes.hist(values, bins=40, stacked=True, color=colours, label=names)
            axes.set(xlabel=label, ylabel="segments")
        mean = np.mean([each.duration for each in segments])
        left.set_title(f"Lengths, {mean:.1f} s on average")
        right.set_title("Scores")
        right.legend(frameon=False)
        _save(figure, path)


@contextlib.contextmanager
def _pyplot() -> Iterator[Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        yield pyplot


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    with atomic_write(path) as partial:
        figure.savefig(partial, format=path.suffix[1:], dpi=110)
    pyplot.close(figure)
