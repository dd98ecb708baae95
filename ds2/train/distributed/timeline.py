"""Where each rank's time goes: spans of its minibatches by torch's profiler, as files and as a picture."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from ds2.train.config import TrainConfig
from ds2.train.data import Corpus
from ds2.train.distributed.ranks import Ranks
from ds2.utils.files import atomic_write

COLOURS = {
    "data": "#8c6bb1",
    "forward": "#41ab5d",
    "backward": "#2171b5",
    "communication": "#e6550d",
    "waiting": "#bdbdbd",
    "update": "#fec44f",
}
SKIPPED = 2  # minibatches at the beginning of the epoch

Span = tuple[str, float, float]  # kind, begin and end in seconds of the machine's clock


@contextlib.contextmanager
def profiling(folder: Path, config: TrainConfig, corpus: Corpus, ranks: Ranks) -> Iterator[Callable[[], None]]:
    """Yields what is to be called after each minibatch; writes `timeline.rankN.json` where the configuration asks."""
    if not config.profile:
        yield lambda: None
        return
    before = sum(corpus.sampler.count(epoch) for epoch in range(config.epochs - 1)) + SKIPPED
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()

    def write(recorded: profile) -> None:
        with atomic_write(folder / f"timeline.rank{ranks.number}.json") as partial:
            partial.write_text(json.dumps(spans(recorded)), encoding="utf-8")

    window = schedule(skip_first=before, wait=0, warmup=1, active=config.profile, repeat=1)
    with profile(activities=activities, schedule=window, on_trace_ready=write) as profiler:
        yield profiler.step


def spans(recorded: profile) -> list[Span]:
    """Our own marks, and every exchange of the communication libraries."""
    start = recorded.profiler.kineto_results.trace_start_ns() / 1e9  # type: ignore[union-attr]
    found = []
    for event in recorded.events() or []:
        kind = event.name.removeprefix("ds2: ")
        if event.name.startswith(("gloo:", "nccl:", "ncclDevKernel")):
            kind = "communication"
        if kind in COLOURS:
            found.append((kind, start + event.time_range.start / 1e6, start + event.time_range.end / 1e6))
    return sorted(found, key=lambda span: span[1])


def shares(recorded: Sequence[Span]) -> dict[str, float]:
    """Seconds of each kind; communication inside forward or backward counts there as well."""
    return {kind: sum(end - begin for name, begin, end in recorded if name == kind) for kind in COLOURS}


def draw_timeline(path: Path, runs: Mapping[str, Sequence[Sequence[Span]]], seconds: float = 0.0) -> None:
    """One row a rank, under the name of its run, as a PNG; communication lies as a thin bar over what it happens in."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    rows = sum(len(ranks) for ranks in runs.values())
    figure, axes = pyplot.subplots(figsize=(12, 0.8 + 0.5 * rows), constrained_layout=True)
    labels, row = [], 0
    for name, ranks in runs.items():
        start = min(recorded[0][1] for recorded in ranks)
        for number, recorded in enumerate(ranks):
            for kind, begin, end in recorded:
                low, height = (row - 0.15, 0.3) if kind == "communication" else (row - 0.4, 0.8)
                axes.broken_barh([(begin - start, end - begin)], (low, height), facecolor=COLOURS[kind], linewidth=0)
            labels.append(f"{name}, rank {number}")
            row += 1
    axes.set_yticks(range(rows), labels)
    axes.invert_yaxis()
    axes.set(xlabel="seconds", xlim=(0, seconds or None))
    axes.spines[["top", "right", "left"]].set_visible(False)
    handles = [Patch(color=colour, label=kind) for kind, colour in COLOURS.items()]
    axes.legend(handles=handles, ncols=len(handles), loc="upper center", bbox_to_anchor=(0.5, 1.25), frameon=False)
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=110)
    pyplot.close(figure)
