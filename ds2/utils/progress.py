"""Progress on long work: a bar with rate and ETA on a terminal; elsewhere a line now and then."""

import logging
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

logger = logging.getLogger(__name__)
printed = logging.getLogger("ds2.progress")  # its lines are printed by the command line

PRINTED_SECONDS = 60.0


class Progress:
    """One bar on standard error: description, bar, count, items per second, time left, a free note.

    It begins when made; `step` counts finished items; `finish`, or leaving the `with` block, ends it. Where standard
    error is not a terminal nothing is imported, and the same facts are logged every `line_seconds` seconds; 0: once a
    minute, for the command line to print.
    """

    def __init__(self, description: str, total: int, unit: str, start: int = 0, line_seconds: float = 0.0):
        self.description = description
        self.total = total
        self.unit = unit
        self.start = start
        self.done: float = start
        self.line_seconds = line_seconds
        self.began = self.logged = time.monotonic()
        self.bar = _bar() if sys.stderr.isatty() else None
        if self.bar is not None:
            self.task = self.bar.add_task(description, total=total, completed=start, rate="", note="")
            self.bar.start()

    def step(self, count: float = 1, note: str = "") -> None:
        """Counts so many items as done, and shows the note."""
        self.done += count
        if self.bar is None:
            self._log(note)
            return
        task = self.bar.tasks[self.task]
        elapsed = task.elapsed or 0.0
        done = task.completed + count - self.start
        rate = f"{done / elapsed:.1f} {self.unit}/s" if elapsed > 0 else ""
        self.bar.update(self.task, advance=count, rate=rate, note=note)

    def _log(self, note: str) -> None:
        """A line, if the last one is `line_seconds` ago."""
        now = time.monotonic()
        if now - self.logged < (self.line_seconds or PRINTED_SECONDS):
            return
        self.logged = now
        rate = (self.done - self.start) / (now - self.began)
        count = f"{self.done:,.0f} of {self.total:,}" if self.total else f"{self.done:,.0f}"
        facts = [f"{self.description}: {count} {self.unit}", f"{rate:.1f} {self.unit}/s"]
        if rate > 0 and self.done < self.total:
            facts.append(f"{timedelta(seconds=round((self.total - self.done) / rate))} left")
        line = ", ".join([*facts, *([note] if note else [])])
        (logger if self.line_seconds else printed).info(line)

    def finish(self) -> None:
        """Removes the bar."""
        if self.bar is not None:
            self.bar.stop()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def _bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
