"""Compares the strategies: `ds2 bench-train` trains the same configuration with each, in real processes."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds2.train.distributed.timeline import SKIPPED, seconds_by_kind
from ds2.train.metrics import read_metrics
from ds2.train.plots import Span, draw_timeline
from ds2.train.run_folder import check_name
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder, write_text

PROFILED = 6  # minibatches in a timeline
SILENT = "5"  # of torch's profiler, whose lines begin with USDT:
HEADER = (
    "| strategy | ranks | utterances/s | speed-up | efficiency | seconds to dev loss {target:.2f} | final dev loss | "
    "final WER | waiting | communication | ms of both, and MB, per minibatch |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedRun:
    """A finished training: its strategy, the number of processes, and the records in its folder."""

    strategy: str
    ranks: int
    history: list[dict[str, Any]]
    timeline: list[list[Span]]  # of each rank

    @property
    def name(self) -> str:
        """The name in tables and pictures: the strategy and its processes."""
        return f"{self.strategy} {self.ranks}" if self.ranks > 1 else "one process"

    @property
    def throughput(self) -> float:
        """Utterances per second of training, without validation."""
        seconds = sum(epoch["seconds"] for epoch in self.history)
        return sum(epoch["utterances_per_second"] * epoch["seconds"] for epoch in self.history) / seconds

    def seconds_to(self, loss: float) -> float | None:
        """Seconds of training until the dev loss was as low, interpolated between epochs; None: it never was."""
        passed, before = 0.0, None
        for epoch in self.history:
            if epoch["dev_loss"] <= loss:
                fraction = 1.0 if before is None else (before - loss) / (before - epoch["dev_loss"])
                return float(passed + fraction * epoch["seconds"])
            passed, before = passed + epoch["seconds"], epoch["dev_loss"]
        return None

    @property
    def costs(self) -> str:
        """Milliseconds that a rank waits and communicates, and megabytes of all ranks, per minibatch of the last epoch.

        0 in runs that did not count them.
        """
        last = self.history[-1]
        seconds = [last.get(f"{kind}_seconds_per_minibatch", 0.0) for kind in ("waiting", "communication")]
        return f"{1000 * seconds[0]:.1f} + {1000 * seconds[1]:.1f}, {last.get('megabytes_per_minibatch', 0.0):.2f}"

    def fraction(self, kind: str) -> float:
        """Part of the ranks' recorded time that went into this kind of work."""
        whole = sum(recorded[-1][2] - recorded[0][1] for recorded in self.timeline)
        return sum(seconds_by_kind(recorded)[kind] for recorded in self.timeline) / whole


def bench(
    config: Path, output: Path, strategies: Sequence[str], ranks: Sequence[int], settings: Sequence[str], device: str
) -> list[FinishedRun]:
    """Trains with one process, then with each strategy on each number of ranks above one; finished runs are kept.

    Raises:
        InputError: a training ended with an error, or the folder has a bad name.
    """
    check_name(output)
    plan = [("synchronous", 1)] + [(strategy, count) for strategy in strategies for count in ranks if count > 1]
    make_folder(output)
    return [_run_ranks(config, output, strategy, count, settings, device) for strategy, count in plan]


def _run_ranks(
    config: Path, output: Path, strategy: str, ranks: int, settings: Sequence[str], device: str
) -> FinishedRun:
    folder = output / f"{strategy}_{ranks}"
    logger.info("%s, ranks: %d", strategy, ranks)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    options = [f"--set={key}" for key in (*settings, f"parallel.strategy={strategy}", f"profile={PROFILED}")]
    command = [sys.executable, *torchrun, "-m", "ds2", "train", str(config), "--output", str(folder)]
    environment = {"OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": SILENT, **os.environ}
    if subprocess.run([*command, "--device", device, *options], env=environment).returncode != 0:
        raise InputError(f"{folder}: training with {ranks} ranks, {strategy}, failed; see above")
    return read_run(folder, strategy, ranks)


def read_run(folder: Path, strategy: str, ranks: int) -> FinishedRun:
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
    return FinishedRun(strategy, ranks, history, timeline)


def scaling_table(runs: Sequence[FinishedRun], target: float | None = None) -> str:
    """Markdown. The target is a dev loss, by default the highest final one of any run, which all of them reach."""
    loss = target or max(run.history[-1]["dev_loss"] for run in runs)
    rows = [HEADER.format(target=loss)]
    for run in runs:
        speed_up = run.throughput / runs[0].throughput
        seconds, last = run.seconds_to(loss), run.history[-1]
        rows.append(
            f"| {run.strategy} | {run.ranks} | {run.throughput:.1f} | {speed_up:.2f} | {speed_up / run.ranks:.0%} | "
            f"{'never' if seconds is None else f'{seconds:.1f}'} | {last['dev_loss']:.2f} | {last['wer']:.2%} | "
            f"{run.fraction('waiting'):.0%} | {run.fraction('communication'):.0%} | "
            f"{run.costs} |"
        )
    return "\n".join(rows)


def write_scaling(output: Path, runs: Sequence[FinishedRun], target: float | None = None) -> str:
    """Writes scaling.md with the table, which is returned, and timeline.png."""
    text = scaling_table(runs, target)
    write_text(output / "scaling.md", text + "\n")
    draw_timeline(output / "timeline.png", {run.name: run.timeline for run in runs if run.timeline})
    return text
