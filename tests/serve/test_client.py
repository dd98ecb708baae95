"""The client in `examples`, which the tutorial on live streams shows."""

import subprocess
import sys
from pathlib import Path

from serve.conftest import DIGITS, RunningServer

CLIENT = Path(__file__).parents[2] / "examples" / "client.py"


def test_it_shows_what_is_said(server: RunningServer) -> None:
    recording = DIGITS / "so762_000050049.opus"
    command = [sys.executable, CLIENT, recording, "--server", server.live]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    *partial, final = shown.replace("\n", "").split("\033[K")  # a carriage return is read as the end of a line
    assert final == "two five eight"
    assert "two five" in partial
