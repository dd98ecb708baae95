"""ds2 spark transcribe, as a person runs it on the cores of this machine."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ds2.recognition.recognizer import Recognizer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DIGITS = Path(__file__).parents[2] / "recipes" / "digits" / "audio"


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and what ds2 prints on standard error; Spark prints there too."""
    command = [sys.executable, "-m", "ds2", "spark", "transcribe", "--master", "local[1]", *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ds2: ")]
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, "\n".join(errors)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "calls" / "deep").mkdir(parents=True)
    for name in ("so762_000560026.opus", "so762_000560038.opus"):
        shutil.copy(DIGITS / name, tmp_path / "calls" / "deep")
    (tmp_path / "calls" / "bad.WAV").write_bytes(b"no sound")
    (tmp_path / "calls" / "deep" / "Stille, 0 %.wav").touch()
    (tmp_path / "calls" / "notes.txt").write_text("not a recording")
    return tmp_path / "calls"


def test_a_folder_becomes_a_table(spark: "SparkSession", folder: Path, tmp_path: Path) -> None:
    """The texts are those of the recogniser, the bad files are named, the empty one too, and a second run is refused
    before it has done anything."""
    settings = ("--model", "digits", "--conf", "spark.ui.enabled=false")
    code, output, errors = run(folder, "--output", tmp_path / "out", *settings)
    assert code == 1
    assert "2 transcribed, 2 failed, 0.00 h of audio" in output
    assert f"{folder}/bad.WAV: " in errors
    recognizer = Recognizer.load("digits", "cpu")
    rows = {Path(row.path).name: row for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert rows.keys() == {"bad.WAV", "Stille, 0 %.wav", "so762_000560026.opus", "so762_000560038.opus"}
    assert rows["Stille, 0 %.wav"].transcript is None
    assert rows["Stille, 0 %.wav"].error == f"file:{folder}/deep/Stille, 0 %.wav: empty, no audio received"
    for path in (folder / "deep").glob("*.opus"):
        assert rows[path.name].transcript.text == recognizer.transcribe(path).text
    code, output, errors = run(folder, "--output", tmp_path / "out")
    assert (code, output) == (2, "")
    assert errors == f"ds2: {tmp_path}/out: exists already; name a new folder, or remove this one"


def test_bad_input_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ((tmp_path / "none",), "none: no such file or folder"),
        ((f"file:{tmp_path}/none",), "PATH_NOT_FOUND"),
        ((tmp_path / "empty",), "empty: no audio file in this folder"),
        ((tmp_path / "empty", "--conf", "spark.executor.memory"), "--conf: spark.executor.memory: expected KEY=VALUE"),
    ):
        code, output, errors = run(*arguments, "--output", tmp_path / "out")
        assert (code, output) == (2, "")
        assert message in errors
        assert errors.count("\n") == 0
