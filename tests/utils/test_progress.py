"""Progress bars."""

import os
import pty
import subprocess
import sys

import pytest

from ds2.utils.progress import Progress

WORK = (
    "from ds2.utils.progress import Progress\n"
    "with Progress('working', 3, 'things') as progress:\n"
    "    for _ in range(3): progress.step(note='loss 1.5'); __import__('time').sleep(0.2)\n"
)


def test_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("working", 3, "things") as progress:
        for _ in range(3):
            progress.step()
    assert capfd.readouterr() == ("", "")


def test_shows_count_rate_and_note_on_a_terminal() -> None:
    terminal, end = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", WORK], stderr=end, env={**os.environ, "COLUMNS": "120"}):
        os.close(end)
        shown = b""
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(terminal)
    text = shown.decode()
    for part in ("working", "3/3", "things/s", "loss 1.5"):
        assert part in text
