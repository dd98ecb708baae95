"""The recipe of noise, and that it keeps the copies that it makes apart."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ds2.data.manifest import read_manifest

RECIPES = Path(__file__).parents[2] / "recipes"


def start(folder: Path, manifest: Path) -> "subprocess.Popen[str]":
    """A copy of the script, as it writes beside itself."""
    script = folder / "chime" / "run.sh"
    script.parent.mkdir(exist_ok=True)
    shutil.copy(RECIPES / "chime" / "run.sh", script)
    noise = folder / "noise"
    noise.mkdir(exist_ok=True)
    shutil.copy(RECIPES / "digits" / "audio" / "noise_running_tap.opus", noise)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", str(script), "digits", str(manifest), str(noise)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.long
def test_corpora_of_the_same_name_have_their_own_copies(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    first, second = spoken_digits(1), spoken_digits(2)
    told, _ = start(tmp_path, first).communicate()
    conditions = [line for line in told.splitlines() if line.endswith(":")]
    assert conditions == ["clean:", "20 dB:", "15 dB:", "10 dB:", "5 dB:", "0 dB:", "room and line:"]
    assert sum(line.startswith("WER ") for line in told.splitlines()) == 7
    [copies] = (tmp_path / "chime" / "data").iterdir()
    assert len(read_manifest(copies / "20" / "manifest.jsonl")) == 1
    running = start(tmp_path, second)
    try:
        while not (others := [*(tmp_path / "chime" / "data").glob("*/15")]) or len(others) < 2:
            assert running.poll() is None
            time.sleep(0.1)
    finally:
        os.killpg(running.pid, 9)
        running.communicate()
    [other] = {path.parent for path in others} - {copies}
    assert len(read_manifest(other / "20" / "manifest.jsonl")) == 2
