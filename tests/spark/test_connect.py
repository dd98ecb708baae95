"""Spark Connect: a client without a JVM, and a real server in a process of its own."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.spark_cluster import Cluster

from ds2.recognition.recognizer import Recognizer

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "recipes" / "digits" / "audio" / "so762_000560026.opus"
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from ds2.spark import SpeechTranscriber

spark = SparkSession.builder.remote("local[1]").getOrCreate()
good = bytearray(open(sys.argv[1], "rb").read())
table = spark.createDataFrame([(good, "good"), (None, "null"), (bytearray(b"?"), "bad")], "content binary, path string")
stage = SpeechTranscriber(inputCol="content", pathCol="path", outputCol="transcript", model="digits")
found = stage.transform(table).collect()
print(json.dumps([[row.path, row.transcript and row.transcript.text, row.transcript_error] for row in found]))
spark.stop()
"""


def test_a_transcriber_runs_by_spark_connect(cluster: Cluster, tmp_path: Path) -> None:
    """The bundle travels as an artifact of the session."""
    for module in ("pandas", "grpc", "grpc_status", "zstandard"):
        if find_spec(module) is None:
            pytest.skip(f"Spark Connect needs {module}: pip install 'pyspark[connect]'")
    command = [sys.executable, "-c", PROGRAM, str(RECORDING)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    good, null, bad = json.loads(done.stdout.splitlines()[-1])
    assert good == ["good", Recognizer.load("digits", "cpu").transcribe(RECORDING).text, None]
    assert null == ["null", None, None]
    assert bad[1] is None
    assert bad[2].startswith("bad: ")
