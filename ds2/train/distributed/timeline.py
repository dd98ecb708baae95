"""Shows how each rank spends its time: spans of its minibatches, measured by torch's profiler."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from ds2.train.config import TrainConfig
from ds2.train.data import TrainingData
from ds2.train.distributed.ranks import Ranks
from ds2.train.plots import TIMELINE_COLOURS, Span
from ds2.utils.files import write_text

PAIRED = re.compile("send|recv", re.IGNORECASE)
SKIPPED = 2  # minibatches at the beginning of the epoch


@contextlib.contextmanager
def profiling(folder: Path, config: TrainConfig, data: TrainingData, ranks: Ranks) -> Iterator[Callable[[], None]]:
    """Yields a function to call after each minibatch; writes `timeline.rankN.json` if `config.profile` is above 0."""
    if not config.profile:
        yield lambda: None
        return
    before = sum(data.sampler.count(epoch) for epoch in range(config.epochs - 1)) + SKIPPED
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()

    def write(recorded: profile) -> None:
        write_text(folder / f"timeline.rank{ranks.number}.json", json.dumps(spans(recorded)))

    window = schedule(skip_first=before, wait=0, warmup=1, active=config.profile, repeat=1)
    with profile(activities=activities, schedule=window, on_trace_ready=write) as profiler:
        yield profiler.step


def spans(recorded: profile) -> list[Span]:
    """The spans that ds2 marks, and what all ranks exchange together.

    Messages from one rank to another lie within such spans; a server's thread waits for them all the time.
    """
    start = recorded.profiler.kineto_results.trace_start_ns() / 1e9  # type: ignore[union-attr]
    found = []
    for event in recorded.events() or []:
        kind = event.name.removeprefix("ds2: ")
        if event.name.startswith(("gloo:", "nccl:", "ncclDevKernel")) and not PAIRED.search(event.name):
            kind = "communication"
        if kind in TIMELINE_COLOURS:
            found.append((kind, start + event.time_range.start / 1e6, start + event.time_range.end / 1e6))
    return sorted(found, key=lambda span: span[1])
