"""ds2 on Spark, two workers of one core each, against `ds2 transcribe` with two cores: throughput, and the same texts.

    PYTHONPATH=tests python benchmarks/spark.py recordings/ --sizes 250 500 1000 --output benchmarks/spark.json

Each size is that many recordings of the folder. Times are those of the whole command; a straight line through them
divides them into the start and the time for each hour of audio.
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


def measure(recordings: list[Path], sizes: list[int], model: str, cluster: Cluster) -> Iterator[dict[str, Any]]:
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            hours = linked(recordings[:size], folder / "in")
            settings = ("--model", model, "--output")
            plain = timed("transcribe", str(folder / "in"), *settings, str(folder / "files"))
            options = ("--conf", "spark.executor.memory=1g", "--conf", "spark.ui.enabled=false")
            spark = timed(
                *("spark", "transcribe", str(folder / "in"), "--master", cluster.url, *options),
                *settings,
                str(folder / "table"),
            )
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, help="a folder of recordings")
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--model", default="english")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "spark.json")
    arguments = parser.parse_args()
    recordings = sorted(path for path in arguments.recordings.rglob("*") if path.suffix in SUFFIXES)
    if len(recordings) < max(arguments.sizes):
        parser.error(f"{arguments.recordings} holds {len(recordings)} recordings")
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        rows = list(measure(recordings, arguments.sizes, arguments.model, cluster))
    with atomic_write(arguments.output) as partial:
        partial.write_text(json.dumps(rows, indent=1) + "\n")
    if len(rows) > 1:
        print(summary(rows))


if __name__ == "__main__":
    main()
