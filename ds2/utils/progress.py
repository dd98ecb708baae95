"""Progress on long work: a bar with rate and ETA on a terminal, silence elsewhere."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """One bar on standard error: description, bar, count, items per second, time left, a free note.

    It begins when made; `step` counts finished items; `finish`, or leaving the `with` block, ends it. Where standard
    error is no terminal nothing is shown and nothing is imported.
    """

    def __init__(self, description: str, total: int, unit: str, start: int = 0):
        self.unit = unit
        self.start = start
        self.bar = _bar() if sys.stderr.isatty() else None
        if self.bar is not None:
            self.task = self.bar.add_task(description, total=total, completed=start, rate="", note="")
            self.bar.start()

    def step(self, count: float = 1, note: str = "") -> None:
        if self.bar is None:
            return
        task = self.bar.tasks[self.task]
        elapsed = task.elapsed or 0.0
        done = task.completed + count - self.start
        rate = f"{done / elapsed:.1f} {self.unit}/s" if elapsed > 0 else ""
        self.bar.update(self.task, advance=count, rate=rate, note=note)

    def finish(self) -> None:
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
