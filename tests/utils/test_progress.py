"""Progress bars."""

import logging
import os
import pty
import subprocess
import sys

import pytest

from ds2.utils import progress
from ds2.utils.progress import Progress

WORK = (
    "from ds2.utils.progress import Progress\n"
    "with Progress('working', 3, 'things') as progress:\n"
    "    for _ in range(3): progress.step(note='loss 1.5'); __import__('time').sleep(0.2)\n"
)


def test_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("working", 3, "things") as shown:
        for _ in range(3):
            shown.step()
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


def test_logs_a_line_at_intervals_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By hand: 25 seconds an item, a line a minute; 75 s, 3 of 2,000 items done: 1,990 left take 49,750 s."""
    clock = iter(range(1000, 2000, 25))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level(logging.INFO, "ds2")
    with Progress("epoch 1/2", 2000, "utterances", 7, line_seconds=60) as shown:
        for _ in range(5):
            shown.step(note="loss 1.5")
    assert caplog.messages == ["epoch 1/2: 10 of 2,000 utterances, 0.0 utterances/s, 13:49:10 left, loss 1.5"]


def test_a_line_a_minute_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds2.progress")
    clock = iter(range(1000, 2000, 25))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with Progress("aligning", 600, "s of audio") as shown:
        for _ in range(3):
            shown.step(25)
    assert caplog.messages == ["aligning: 75 of 600 s of audio, 1.0 s of audio/s, 0:08:45 left"]


def test_log_lines_may_begin_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter((0, 90, 180))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level(logging.INFO, "ds2")
    shown = Progress("epoch 1/2", 100, "utterances", line_seconds=60)
    shown.step(0)
    shown.step(10)
    assert caplog.messages == [
        "epoch 1/2: 0 of 100 utterances, 0.0 utterances/s",
        "epoch 1/2: 10 of 100 utterances, 0.1 utterances/s, 0:27:00 left",
    ]
