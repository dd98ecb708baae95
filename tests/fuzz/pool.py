"""Processes that read hostile inputs, each used for many; what one did wrong is attributed to its input.

number -> worker -> accepted | refused (InputError)    fine
                 -> traceback                          any other exception
                 -> hang                               too much processor time, or no answer
                 -> crash                              the process is gone; another takes its place
                 -> memory                             grows beyond the limit
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]
WRONG = ("traceback", "hang", "crash", "memory")
TICK = 0.1  # seconds between two looks at a busy process
START_SECONDS = 900.0  # kernels may have to be compiled
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Limits:
    """Of one input."""

    processor_seconds: float = 10.0
    seconds: float = 200.0  # also where the process waits, for a processor as well
    memory: int = 1 << 29  # bytes by which the process grows at the most


@dataclass(frozen=True)
class Finding:
    """What went wrong with an input, and where its files lie."""

    kind: str
    number: int
    outcome: str  # one of WRONG
    report: str
    folder: Path


@dataclass
class Row:
    """The figures of a kind."""

    outcomes: Counter[str] = field(default_factory=Counter)
    peak: int = 0  # bytes by which a process grew
    slowest: float = 0.0  # seconds


@dataclass
class Verdict:
    """The figures of a run."""

    rows: dict[str, Row]
    findings: list[Finding] = field(default_factory=list)


class Worker:
    """One process; a new one takes its place when it has been lost."""

    def __init__(self, module: str, kinds: Sequence[str], folder: Path, limits: Limits):
        self.folder = folder
        self.limits = limits
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
        self._command = [sys.executable, "-m", "fuzz.worker", module, str(folder), *kinds]
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def read(self, kind: str, number: int) -> dict:
        """Has an input read; the answer with `outcome`, `report`, `peak` (bytes it grew by) and `seconds`."""
        process = self._process or self._start()
        began = time.monotonic()
        assert process.stdin is not None
        process.stdin.write(f"{kind} {number}\n")
        process.stdin.flush()
        answer = self._answer(process, self.limits.processor_seconds, self.limits.seconds)
        if answer["outcome"] in WRONG:
            self.close()  # what is left of it, such as a server that has come to harm, must not blame the next input
        elif answer["peak"] > self.limits.memory:
            answer |= {"outcome": "memory", "report": f"{answer['peak'] >> 20} MiB\n{answer['report']}"}
        return answer | {"seconds": time.monotonic() - began}

    def close(self) -> None:
        """Kills the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> "subprocess.Popen[str]":
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
            )
        answer = self._answer(self._process, START_SECONDS, START_SECONDS)
        if not answer.get("ready"):
            raise RuntimeError(f"a worker did not start: {answer['report']}")
        return self._process

    def _answer(self, process: "subprocess.Popen[str]", processor_seconds: float, seconds: float) -> dict:
        assert process.stdout is not None
        began, used = time.monotonic(), _processor_seconds(process.pid)
        while not select.select([process.stdout], [], [], TICK)[0]:
            spent, waited = _processor_seconds(process.pid) - used, time.monotonic() - began
            if spent > processor_seconds or waited > seconds:
                return {"outcome": "hang", "report": f"{spent:.0f} s of the processor in {waited:.0f} s", "peak": 0}
        if line := process.stdout.readline():
            return json.loads(line)
        log = (self.folder / "log").read_text(errors="replace")[-5000:]
        return {"outcome": "crash", "report": f"exit status {process.wait()}\n{log}", "peak": 0}


def fuzz(
    module: str,
    kinds: Sequence[str],
    numbers: Iterable[int],
    into: Path,
    *,
    processes: int = 2,
    until: float = float("inf"),
    limits: Limits = Limits(),
) -> Verdict:
    """Has inputs of these numbers of each kind read, until `time.monotonic()` is `until`.

    Args:
        module: that has KINDS.
        into: a folder for the inputs with which something went wrong.
    """
    verdict = Verdict({kind: Row() for kind in kinds})
    tasks = ((kind, number) for number in numbers for kind in kinds)
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work(folder: Path) -> None:
        worker = Worker(module, kinds, folder, limits)
        try:
            while time.monotonic() < until and not failures:
                with lock:
                    task = next(tasks, None)
                if task is None:
                    return
                answer = worker.read(*task)
                with lock:
                    _enter(verdict, *task, answer, folder, into)
        except BaseException as error:  # a thread has nobody to raise it to
            failures.append(error)
        finally:
            worker.close()

    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch, str(number)) for number in range(processes)]
        threads = [threading.Thread(target=work, args=(folder,), daemon=True) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return verdict


def _enter(verdict: Verdict, kind: str, number: int, answer: dict, folder: Path, into: Path) -> None:
    """Counts an answer; keeps the input where it is a finding."""
    row = verdict.rows[kind]
    row.outcomes[answer["outcome"]] += 1
    row.peak = max(row.peak, answer["peak"])
    row.slowest = max(row.slowest, answer["seconds"])
    if answer["outcome"] in WRONG:
        kept = into / f"{kind}-{number}"
        shutil.copytree(folder / "input", kept, dirs_exist_ok=True)
        (kept / "report.txt").write_text(f"{answer['outcome']}\n{answer['report']}", errors="backslashreplace")
        verdict.findings.append(Finding(kind, number, answer["outcome"], answer["report"], kept))


def table(verdict: Verdict) -> str:
    """The figures of each kind, and of all."""
    titles = ["kind", "inputs", "accepted", "tracebacks", "hangs", "crashes", "too large", "grew MiB", "slowest s"]
    lines = [_cells(name, row) for name, row in verdict.rows.items()]
    every = verdict.rows.values()
    outcomes = sum((row.outcomes for row in every), Counter[str]())
    total = Row(outcomes, max(row.peak for row in every), max(row.slowest for row in every))
    lines.append(_cells("all", total))
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    rows = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in [titles, *lines]]
    return "\n".join("  ".join(row) for row in rows)


def _cells(name: str, row: Row) -> list[str]:
    counts = [row.outcomes.total(), row.outcomes["accepted"], *(row.outcomes[outcome] for outcome in WRONG)]
    return [name, *map(str, counts), str(row.peak >> 20), f"{row.slowest:.1f}"]


def _processor_seconds(process: int) -> float:
    """That it has used; 0 for one that has gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
