"""Compares the strategies: `ds2 bench-train` trains the same configuration with each, in real processes."""

import itertools
import json
import logging
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds2.train.distributed.timeline import SKIPPED
from ds2.train.metrics import read_metrics
from ds2.train.plots import Span, draw_timeline
from ds2.train.run_folder import check_name
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder, write_text

PROFILED = 6  # minibatches in a timeline
SILENT = "5"  # of torch's profiler, whose lines begin with USDT:
GROUPED = ("local-sgd", "mixed")  # strategies with groups of ranks
PAUSES = ("waiting", "communication")
PARTED = ("asynchronous", "mixed")  # strategies whose weights several parameter servers share

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Contender:
    """A way to train: a strategy on so many ranks, with settings of `[parallel]` such as group=2."""

    strategy: str
    ranks: int
    settings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The strategy with its settings, as tables name it: mixed, group 2, servers 1."""
        return ", ".join((self.strategy, *self.settings)).replace("=", " ")

    @property
    def folder(self) -> str:
        """The name of the folder of its run."""
        return "_".join((self.strategy, str(self.ranks), *self.settings)).replace("=", "")


@dataclass(frozen=True)
class FinishedRun:
    """A finished training: the number of processes, and the records in its folder."""

    ranks: int
    history: list[dict[str, Any]]
    timeline: list[list[Span]]  # of each rank

    @property
    def utterances(self) -> float:
        """Trained on in all epochs."""
        return float(sum(epoch["utterances_per_second"] * epoch["seconds"] for epoch in self.history))

    @property
    def throughput(self) -> float:
        """Utterances per second of training, without validation."""
        return self.utterances / float(sum(epoch["seconds"] for epoch in self.history))

    @property
    def processor_time(self) -> float:
        """Milliseconds of processors per utterance, of all ranks together; nan in runs that did not count them.

        Unlike the time of a clock it hardly grows where ranks share cores.
        """
        return 1000 * sum(epoch.get("processor_seconds", math.nan) for epoch in self.history) / self.utterances

    def seconds_to(self, loss: float) -> float | None:
        """Seconds of training until the dev loss was as low, interpolated between epochs; None: it never was."""
        passed, before = 0.0, None
        for epoch in self.history:
            if epoch["dev_loss"] <= loss:
                fraction = 1.0 if before is None else (before - loss) / (before - epoch["dev_loss"])
                return float(passed + fraction * epoch["seconds"])
            passed, before = passed + epoch["seconds"], epoch["dev_loss"]
        return None

    def last(self, name: str) -> float:
        """A figure of the last epoch."""
        return float(self.history[-1][name])

    def cost(self, name: str) -> float:
        """Seconds or megabytes per minibatch in the epoch before the last, which is not profiled; 0 if not counted."""
        return float(self.history[-2:][0].get(f"{name}_per_minibatch", 0.0))

    def pause(self, kind: str) -> float:
        """Part of that epoch for which a rank waited or communicated."""
        epoch = self.history[-2:][0]
        return self.cost(f"{kind}_seconds") * epoch.get("minibatches", math.nan) / epoch["seconds"]


Results = Mapping[Contender, Sequence[FinishedRun]]  # a run for each seed


def contenders(
    strategies: Sequence[str], ranks: Sequence[int], groups: Sequence[int], servers: Sequence[int]
) -> Iterator[Contender]:
    """One process, then each strategy on each number of ranks above one, with each group and number of servers."""
    yield Contender("synchronous", 1)
    for strategy, count in itertools.product(strategies, (count for count in ranks if count > 1)):
        group_settings = [f"group={group}" for group in groups if strategy in GROUPED] or [""]
        server_settings = [f"servers={number}" for number in servers if strategy in PARTED] or [""]
        for settings in itertools.product(group_settings, server_settings):
            yield Contender(strategy, count, tuple(filter(None, settings)))


def bench(
    config: Path,
    output: Path,
    plan: Sequence[Contender],
    seeds: Sequence[int],
    settings: Sequence[str],
    device: str,
) -> Results:
    """Trains each contender with each seed, without one with that of the configuration; finished runs are kept.

    Raises:
        InputError: a training ended with an error, or the folder has a bad name.
    """
    check_name(output)
    make_folder(output)
    logger.info("compiling kernels that are not compiled yet")  # or the first run would seem slow
    subprocess.run([sys.executable, "-m", "ds2", "warmup"], stdout=subprocess.DEVNULL, check=False)
    results: dict[Contender, list[FinishedRun]] = {}
    for contender in plan:
        for seed in seeds or (None,):
            folder = output / (contender.folder if seed is None else f"{contender.folder}_seed{seed}")
            seeded = settings if seed is None else (*settings, f"seed={seed}")
            results.setdefault(contender, []).append(_run_ranks(config, folder, contender, seeded, device))
    return results


def _run_ranks(config: Path, folder: Path, contender: Contender, settings: Sequence[str], device: str) -> FinishedRun:
    ranks = contender.ranks
    logger.info("%s", folder.name)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    parallel = [f"parallel.{setting}" for setting in (f"strategy={contender.strategy}", *contender.settings)]
    options = [f"--set={key}" for key in (*settings, *parallel, f"profile={PROFILED}")]
    command = [sys.executable, *torchrun, "-m", "ds2", "train", str(config), "--output", str(folder)]
    environment = {"OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": SILENT, **os.environ}
    command += ["--device", device, *options]
    if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode != 0:
        raise InputError(f"{folder}: training with {ranks} ranks, {contender.title}, failed; see above")
    return read_run(folder, ranks)


def read_run(folder: Path, ranks: int) -> FinishedRun:
    """A finished training.

    Raises:
        InputError: it was too short for a timeline.
    """
    history = read_metrics(folder / "metrics.jsonl")
    files = [folder / f"timeline.rank{rank}.json" for rank in range(ranks)]
    timeline = [json.loads(file.read_text()) for file in files if file.exists()]
    if not any(kind == "update" for recorded in timeline for kind, _, _ in recorded):
        raise InputError(
            f"{folder}: no timeline, since an epoch has fewer than {SKIPPED + 2} minibatches; lower batch_size"
        )
    return FinishedRun(ranks, history, timeline)


def scaling_table(results: Results, target: float | None = None) -> str:
    """Markdown. The target is a dev loss, by default the highest final one of any run, which all of them reach.

    Efficiency is the processor time of one process divided by that of all ranks: what they do not spend on each other.
    """
    loss = target or max(run.last("dev_loss") for runs in results.values() for run in runs)
    alone = next(iter(results.values()))
    rows = [_cells(contender, runs, alone, loss) for contender, runs in results.items()]
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(
    contender: Contender, runs: Sequence[FinishedRun], alone: Sequence[FinishedRun], loss: float
) -> dict[str, str]:
    """The cells of a row by the names of their columns; `alone` are the runs of one process with the same seeds."""
    pairs = list(zip(alone, runs, strict=True))
    pauses = {kind: f"{statistics.mean(run.pause(kind) for run in runs):.0%}" for kind in PAUSES}
    return {
        "strategy": contender.title,
        "ranks": str(contender.ranks),
        "utterances/s": mean_and_deviation([run.throughput for run in runs], "{:.1f}"),
        "speed-up": mean_and_deviation([run.throughput / one.throughput for one, run in pairs], "{:.2f}"),
        "processor ms per utterance": mean_and_deviation([run.processor_time for run in runs], "{:.1f}"),
        "efficiency": mean_and_deviation([one.processor_time / run.processor_time for one, run in pairs], "{:.0%}"),
        f"seconds to dev loss {loss:.2f}": time_to(loss, runs),
        "final dev loss": mean_and_deviation([run.last("dev_loss") for run in runs], "{:.2f}"),
        "final WER": mean_and_deviation([run.last("wer") for run in runs], "{:.2%}"),
        **pauses,
        "ms of both, and MB, per minibatch": _costs(runs),
    }


def _costs(runs: Sequence[FinishedRun]) -> str:
    """Milliseconds that a rank waits and communicates, and megabytes of all ranks, per minibatch."""
    names = ("waiting_seconds", "communication_seconds", "megabytes")
    waiting, communication, megabytes = (statistics.mean(run.cost(name) for run in runs) for name in names)
    return f"{1000 * waiting:.1f} + {1000 * communication:.1f}, {megabytes:.2f}"


def time_to(loss: float, runs: Sequence[FinishedRun]) -> str:
    """Seconds until the dev loss was as low; "never" where a run did not get there."""
    seconds = [each for run in runs if (each := run.seconds_to(loss)) is not None]
    return mean_and_deviation(seconds, "{:.1f}") if len(seconds) == len(runs) else "never"


def mean_and_deviation(values: Sequence[float], form: str) -> str:
    """The mean and, of several values, the deviation."""
    mean = form.format(statistics.mean(values))
    return mean if len(values) == 1 else f"{mean} ± {form.format(statistics.stdev(values))}"


def write_scaling(output: Path, results: Results, target: float | None = None) -> str:
    """Writes scaling.md with the table, which is returned, and timeline.png of the first seed."""
    text = scaling_table(results, target)
    write_text(output / "scaling.md", text + "\n")
    first = {contender: runs[0] for contender, runs in results.items()}
    names = {contender: f"{contender.title}, ranks: {contender.ranks}" for contender in first}
    draw_timeline(output / "timeline.png", {names[each]: run.timeline for each, run in first.items() if run.timeline})
    return text
