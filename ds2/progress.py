"""Progress on long work: a bar with rate and ETA on a terminal, silence elsewhere."""

import sys


class Progress:
    """One bar on standard error: description, bar, count, items per second, time left, a free note.

    begin on construction, `step` per finished item(s), `finish` (or leave the `with` block) at the end.
    """

    def __init__(self, description: str, total: int, unit: str, start: int = 0):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.unit = unit
        self.start = start
        self.bar = Bar(*columns, console=console, transient=True, disable=not sys.stderr.isatty())
        self.task = self.bar.add_task(description, total=total, completed=start, rate="", note="")
        self.bar.start()

    def step(self, count: int = 1, note: str = "") -> None:
        task = self.bar.tasks[self.task]
        elapsed = task.elapsed or 0.0
        done = task.completed + count - self.start
        rate = f"{done / elapsed:.1f} {self.unit}/s" if elapsed > 0 else ""
        self.bar.update(self.task, advance=count, rate=rate, note=note)

    def finish(self) -> None:
        self.bar.stop()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
