"""ds2 on Spark, two workers of one core each, against `ds2 transcribe` with two cores: throughput, and the same texts.

    PYTHONPATH=tests python benchmarks/spark.py recordings/ --sizes 250 500 1000 --output benchmarks/spark.json
    PYTHONPATH=tests python benchmarks/spark.py recordings/ --sizes 50 500 --executors 1 2 4 --output executors.json

Each size is that many recordings of the folder. Times are those of the whole command; a straight line through them
divides them into the start and the time for each hour of audio. With --executors only Spark is timed, with so many
executors of one core each, all on this machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from helpers.spark_cluster import Cluster

from ds2.audio.files import SUFFIXES, probe
from ds2.utils.files import atomic_write, make_folder

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "ds2"]
CORE_HOUR = 0.04  # dollars, of a core of a rented machine


def linked(recordings: list[Path], folder: Path) -> float:
    """Makes links to recordings in a folder; the hours of audio."""
    make_folder(folder)
    for number, path in enumerate(recordings):
        (folder / f"{number:06}{path.suffix}").symlink_to(path.resolve())
    return sum(probe(path).duration for path in recordings) / 3600


def timed(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def texts_of_files(folder: Path) -> dict[str, str]:
    return {path.stem: " ".join(path.read_text().split()) for path in folder.glob("*.txt")}


def texts_of_table(folder: Path) -> dict[str, str]:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(folder).to_pylist()
    return {Path(row["path"]).stem: row["transcript"]["text"] for row in rows}


def by_executors(
    recordings: list[Path], sizes: list[int], counts: list[int], model: str, cluster: Cluster
) -> Iterator[dict[str, Any]]:
    """The time of the command on Spark alone."""
    cluster.start_workers(*(f"worker{number}" for number in range(2, max(counts))))  # two are there
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            hours = linked(recordings[:size], Path(name) / "in")
            for count in counts:
                row = {"files": size, "hours": hours, "executors": count}
                row["spark"] = on_spark(Path(name) / "in", Path(name) / f"table{count}", model, cluster, count)
                print(row, flush=True)
                yield row


def on_spark(source: Path, output: Path, model: str, cluster: Cluster, executors: int) -> float:
    """Seconds of the command."""
    keys = ("spark.executor.memory=1g", "spark.ui.enabled=false", f"spark.cores.max={executors}")
    options = [option for key in keys for option in ("--conf", key)]
    place = ("--master", cluster.url, "--model", model, "--output", str(output))
    return timed("spark", "transcribe", str(source), *place, *options)


def measure(recordings: list[Path], sizes: list[int], model: str, cluster: Cluster) -> Iterator[dict[str, Any]]:
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            hours = linked(recordings[:size], folder / "in")
            plain = timed("transcribe", str(folder / "in"), "--model", model, "--output", str(folder / "files"))
            spark = on_spark(folder / "in", folder / "table", model, cluster, 2)
            files, table = texts_of_files(folder / "files"), texts_of_table(folder / "table")
            equal = sum(table[key] == text for key, text in files.items())
        row = {"files": size, "hours": hours, "transcribe": plain, "spark": spark, "equal texts": equal}
        print(row, f"ratio {plain / spark:.2f}", flush=True)
        yield row


def summary(rows: list[dict[str, Any]]) -> str:
    """Start, time for an hour of audio, and what 1,000 hours cost."""
    lines = []
    for name in ("transcribe", "spark"):
        slope, start = np.polyfit([row["hours"] for row in rows], [row[name] for row in rows], 1)
        core_hours = 2 * slope * 1000 / 3600
        lines.append(
            f"{name}: {start:.1f} s and {slope:.1f} s for each hour of audio on two cores; 1,000 hours: "
            f"{core_hours:.0f} core hours, ${core_hours * CORE_HOUR:.2f} at ${CORE_HOUR} a core hour"
        )
    return "\n".join(lines)


def summary_of_executors(rows: list[dict[str, Any]]) -> str:
    """Start, and hours of audio in an hour."""
    lines = []
    for count in sorted({row["executors"] for row in rows}):
        own = [row for row in rows if row["executors"] == count]
        slope, start = np.polyfit([row["hours"] for row in own], [row["spark"] for row in own], 1)
        lines.append(f"executors {count}: start {start:.1f} s, then {3600 / slope:.0f} hours of audio in an hour")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, help="a folder of recordings")
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--executors", type=int, nargs="+", default=[], help="numbers of executors to compare instead")
    parser.add_argument("--model", default="english")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "spark.json")
    arguments = parser.parse_args()
    recordings = sorted(path for path in arguments.recordings.rglob("*") if path.suffix in SUFFIXES)
    if len(recordings) < max(arguments.sizes):
        parser.error(f"{arguments.recordings} holds {len(recordings)} recordings")
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        if arguments.executors:
            rows = list(by_executors(recordings, arguments.sizes, arguments.executors, arguments.model, cluster))
        else:
            rows = list(measure(recordings, arguments.sizes, arguments.model, cluster))
    with atomic_write(arguments.output) as partial:
        partial.write_text(json.dumps(rows, indent=1) + "\n")
    if len(rows) > 1:
        print(summary_of_executors(rows) if arguments.executors else summary(rows))


if __name__ == "__main__":
    main()
