"""Workers that die in the middle of a job, or of a stream, lose and double nothing; one that lacks ds2 says so."""

import os
import shutil
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

if TYPE_CHECKING:
    from helpers.spark_cluster import Cluster
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
RECORDINGS = 24
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of recordings, and one that is none."""
    (tmp_path / "in").mkdir()
    for number in range(RECORDINGS):
        samples = np.random.default_rng(number).normal(0, 0.1, 4000 + 1000 * (number % 5))
        soundfile.write(tmp_path / "in" / f"{number:02}.wav", samples, 8000)
    (tmp_path / "in" / "bad.WAV").write_bytes(b"no sound")
    (tmp_path / "in" / "notes.txt").write_text("not a recording")
    return tmp_path / "in"


@pytest.fixture
def restored(cluster: "Cluster") -> Any:
    """The cluster, which has both workers again after the test."""
    yield cluster
    if "worker1" not in cluster.processes:
        cluster.start_workers("worker1")


def test_a_worker_killed_in_mid_job_loses_and_doubles_nothing(
    spark: "SparkSession", restored: "Cluster", folder: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    from ds2.spark import SpeechTranscriber

    names = [(str(path), number) for number, path in enumerate(sorted(folder.glob("*.[wW]*")) * 8)]
    table = spark.createDataFrame(names, "path string, id int").repartition(16)
    stage = SpeechTranscriber(pathCol="path", outputCol="heard", model=tiny_bundle)
    expected = {row.path: row.heard for row in stage.transform(table.limit(RECORDINGS + 1)).collect()}
    job = threading.Thread(target=lambda: stage.transform(table).write.parquet(str(tmp_path / "out")))
    job.start()
    wait_for_tasks(spark, 3)
    restored.kill("worker1")
    job.join()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.id for row in found) == list(range(len(names)))
    assert {row.path for row in found if row.heard_error} == {str(folder / "bad.WAV")}
    assert all(row.heard == expected.get(row.path, row.heard) for row in found)


def test_a_stream_over_an_arriving_folder_is_exactly_once(
    spark: "SparkSession", restored: "Cluster", folder: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    from ds2.spark import SpeechTranscriber

    arriving = tmp_path / "arriving"
    arriving.mkdir()
    stage = SpeechTranscriber(inputCol="content", pathCol="path", outputCol="heard", model=tiny_bundle)

    def run() -> Any:
        kind = "path string, modificationTime timestamp, length bigint, content binary"
        source = spark.readStream.format("binaryFile").schema(kind).option("maxFilesPerTrigger", 6)
        sink = stage.transform(source.load(str(arriving))).drop("content").writeStream.format("parquet")
        place = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "out")}
        return sink.options(**place).trigger(availableNow=True).start()

    paths = sorted(folder.glob("*.[wW]*"))
    for path in paths[:12]:
        shutil.copy(path, arriving)
    query = run()
    wait_for_tasks(spark, 1)
    restored.kill("worker1")
    query.awaitTermination()
    for path in paths[12:]:
        shutil.copy(path, arriving)
    run().awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(Path(row.path).name for row in found) == sorted(path.name for path in paths)
    assert [Path(row.path).name for row in found if row.heard is None] == ["bad.WAV"]


def wait_for_tasks(spark: "SparkSession", count: int) -> None:
    """Until some tasks of the running job have ended."""
    tracker, until = spark.sparkContext.statusTracker(), time.monotonic() + 200
    while time.monotonic() < until:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if sum(stage.numCompletedTasks for stage in stages if stage) >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no task ended")


def test_an_executor_without_ds2_says_what_to_install(tmp_path: Path, tiny_bundle: Path) -> None:
    """Its Python is that of an environment with pyspark and without ds2, in an empty folder, without PYTHONPATH."""
    pyspark = pytest.importorskip("pyspark", reason="needs pyspark, of the extra spark")
    packages = Path(pyspark.__file__).parents[1]
    if (packages / "ds2").exists():
        pytest.skip("ds2 is installed beside pyspark")
    venv.create(tmp_path / "bare", with_pip=False)
    [site] = (tmp_path / "bare").glob("lib/python*/site-packages")
    (site / "pyspark.pth").write_text(f"{packages}\n")  # not the .pth files there, by which ds2 is found
    (tmp_path / "empty").mkdir()
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pyspark.sql import SparkSession
from ds2.spark import SpeechTranscriber
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.createDataFrame([(bytearray(b"?"),)], "content binary")
stage = SpeechTranscriber(inputCol="content", outputCol="heard", model={str(tiny_bundle)!r})
stage.transform(table).collect()
"""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "JAVA_HOME")}
    environment = {**kept, "PYSPARK_PYTHON": str(tmp_path / "bare" / "bin" / "python")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    message = f"No module named 'ds2' on an executor, in {tmp_path}/bare/bin/python; install ds2 with the extra spark"
    assert message in done.stderr
