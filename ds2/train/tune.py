"""Hyperparameter search: trials in parallel, one on each device, the others wait.

Trial 0 is the unchanged configuration. Every trial is a separate process, `ds2 train` into trial_NNN, whose dev WER is
reported after each epoch; the median rule ends a trial that is worse than half of the earlier ones at the same epoch.
A database holds everything: a study that was killed continues, and so do the trainings that it was running. Where
several machines share the database, each continues its own.
"""

import contextlib
import functools
import os
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError

from ds2.train.metrics import read_metrics
from ds2.train.study import Study, settings
from ds2.utils.devices import choose_device
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import make_folder
from ds2.utils.folder_lock import NAME, FolderLock
from ds2.utils.forks import die_with_parent
from ds2.utils.progress import Progress

AGAIN = (1.0, 2.0, 4.0)  # seconds before a study is opened again, whose tables another machine has just made
POLL = 0.5  # seconds between two looks at a trial
STARTUP = 4  # finished trials before any is pruned
EXECUTED = re.compile(r"\b(VIRTUAL|AS)\b", re.I)  # in the statement that made a table: CREATE VIRTUAL, GENERATED ... AS
TABLES = {"studies", "study_directions", "trials", "trial_params", "trial_values", "trial_intermediate_values"}
HOST = "host"  # the attribute of a trial that names the machine on which it was begun


class Tuner:
    """Runs a study in a folder: study.db, trial_NNN, results.md, best.toml, importance.png."""

    def __init__(self, study: Study, folder: Path):
        """Opens or begins the study.

        Raises:
            InputError: a device is not there, the folder cannot be made, or the database cannot be used.
        """
        self.plan = study
        self.folder = folder
        for device in study.devices:
            _check_device(device)
        make_folder(folder)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = open_study(
            study.storage or f"sqlite:///{folder / 'study.db'}",
            optuna.pruners.MedianPruner(STARTUP, study.epochs_before_pruning),
        )
        with readable_study(folder):
            self.study.sampler = self._sampler(study.seed + len(self.study.trials))
        self.lock = threading.Lock()
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.stopping = False
        self.failures: list[Exception] = []  # of the threads

    def _sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        """A sampler; each resumption and each machine has another seed, as the same one would draw the same trials."""
        seed += zlib.crc32(socket.gethostname().encode()) if self.plan.storage else 0
        if self.plan.method == "tpe":
            return optuna.samplers.TPESampler(seed=seed)
        return optuna.samplers.RandomSampler(seed=seed)

    def _plan_trials(self) -> None:
        """Queues the unchanged configuration, the baseline of a new study, and the cells of a grid that are not there:
        a process that was killed may have queued some of them."""
        if not self.study.trials:
            self.study.enqueue_trial({})
        if self.plan.method == "grid":
            queued = {frozenset(trial.system_attrs.get("fixed_params", {}).items()) for trial in self.study.trials}
            for cell in self.plan.cells:
                if frozenset(cell.items()) not in queued:
                    self.study.enqueue_trial(cell)

    def run(self) -> None:
        """Runs until the study has all its trials. An interruption ends the trials; the next run continues them.

        Raises:
            InputError: the database or the folder of a trial cannot be written; the other trials are interrupted. Or
                another process runs the study: its trials would look interrupted.
        """
        # Machines that share a database may share the folder, too.
        with FolderLock(self.folder, f".{socket.gethostname()}.lock" if self.plan.storage else NAME):
            self._run()

    def _run(self) -> None:
        waiting: queue.SimpleQueue[optuna.Trial] = queue.SimpleQueue()
        with readable_study(self.folder):
            self._plan_trials()
            for trial in self._interrupted():
                waiting.put(trial)
            done = sum(trial.state.is_finished() for trial in self.study.trials)
        threads = [threading.Thread(target=self._work, args=(device, waiting)) for device in self.plan.devices]
        with Progress("trials", self.plan.total, "trials", done) as self.progress, self._ending_trials():
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(POLL)
        with readable_study(self.folder):
            for failure in self.failures:
                raise failure

    def _interrupted(self) -> list[optuna.Trial]:
        """Trials that still run, by the database. Where machines share it, those of the others do run."""
        found = self.study.get_trials(states=[optuna.trial.TrialState.RUNNING])
        own = [each for each in found if not self.plan.storage or each.user_attrs.get(HOST) == socket.gethostname()]
        return [self._drawn(optuna.Trial(self.study, each._trial_id)) for each in own]

    def _drawn(self, trial: optuna.Trial) -> optuna.Trial:
        """A trial with its parameters, also those before which its process was killed; the first one, the configuration
        as it is, has none."""
        if trial.number > 0:
            for name, kind in self.plan.distributions.items():
                trial._suggest(name, kind)
        return trial

    @contextlib.contextmanager
    def _ending_trials(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._end_trials()

    def _end_trials(self) -> None:
        self.stopping = True
        for process in list(self.processes):
            process.terminate()  # SIGTERM: the trial writes its checkpoint

    def _work(self, device: str, waiting: "queue.SimpleQueue[optuna.Trial]") -> None:
        """The work of one device: interrupted trials first, then new ones."""
        try:
            while not self.stopping:
                with self.lock:
                    trial = waiting.get() if not waiting.empty() else self._ask()
                if trial is None:
                    return
                self._train(trial, device)
        except Exception as error:  # a thread has nobody to raise it to
            self.failures.append(error)
            self._end_trials()

    def _ask(self) -> optuna.Trial | None:
        """The next trial, those that are queued first; None at the end of the search, of a grid when none is queued:
        machines that begin at the same time may have queued a cell twice.

        A trial has its HOST before it is begun: killed in between, this machine would not know it for its own.
        """
        trials = self.study.trials
        queued = [trial for trial in trials if trial.state == optuna.trial.TrialState.WAITING]
        if len(trials) - len(queued) >= self.plan.total if self.plan.method != "grid" else not queued:
            return None
        if queued:  # the first of them is asked next
            self.study._storage.set_trial_user_attr(queued[0]._trial_id, HOST, socket.gethostname())
        else:
            self.study.enqueue_trial({}, user_attrs={HOST: socket.gethostname()})
        return self._drawn(self.study.ask())

    def _train(self, trial: optuna.Trial, device: str) -> None:
        """Trains a trial to its end, or until it is pruned; a training that fails is a failed trial."""
        trial.set_user_attr(HOST, socket.gethostname())
        folder = self.folder / f"trial_{trial.number:03}"
        make_folder(folder)
        command = [sys.executable, "-m", "ds2", "train", str(self.plan.config), "--output", str(folder)]
        options = [f"--set={setting}" for setting in settings(trial.params)]
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        if device.startswith("cuda:"):
            environment["CUDA_VISIBLE_DEVICES"] = device.removeprefix("cuda:")
        with (folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--device", device.partition(":")[0], *options],
                env=environment,
                stdout=log,
                stderr=log,
                preexec_fn=functools.partial(die_with_parent, os.getpid()),
            )
        self.processes.add(process)
        pruned = self._watch(trial, folder, process)
        self.processes.discard(process)
        if self.stopping and process.returncode != 0:
            return  # the trial stays in state running, so that the next run continues it
        self._tell(trial, folder, pruned, process.returncode)
        self.progress.step()

    def _watch(self, trial: optuna.Trial, folder: Path, process: "subprocess.Popen[bytes]") -> bool:
        """Reports each epoch; returns whether the trial was pruned."""
        reported = len(self.study.trials[trial.number].intermediate_values)
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
            history = read_history(folder)
            for epoch in history[reported:]:
                trial.report(epoch["wer"], epoch["epoch"])
            reported = len(history)
            if process.returncode is not None:
                return False
            if trial.should_prune():
                process.send_signal(signal.SIGTERM)
                process.wait()
                return process.returncode != 0

    def _tell(self, trial: optuna.Trial, folder: Path, pruned: bool, code: int) -> None:
        states = optuna.trial.TrialState
        with self.lock:
            if pruned:
                self.study.tell(trial, state=states.PRUNED)
            elif code == 0:
                self.study.tell(trial, min(epoch["wer"] for epoch in read_history(folder)))
            else:
                self.study.tell(trial, state=states.FAIL)


def _check_device(name: str) -> None:
    """Every trial on a device that is not there would fail, the reason in its log alone."""
    try:
        choose_device(name)
    except ParameterError as error:
        raise InputError(f"devices: {error.reason}") from error


@contextlib.contextmanager
def readable_study(folder: Path) -> Iterator[None]:
    """Turns what optuna raises for a database with impossible rows, in many types, into one line."""
    try:
        yield
    except (InputError, OSError):
        raise
    except Exception as error:
        raise InputError(
            f"{folder}: the study's database broke ({type(error).__name__}: {_line(error):.200}); "
            "use another folder, or a copy of the database"
        ) from error


def open_study(storage: str, pruner: optuna.pruners.BasePruner) -> optuna.Study:
    """Opens the study in a database, or creates it; of machines that create it at the same time, all but one try again.

    Raises:
        InputError: the database cannot be opened, or holds what would be executed.
    """
    try:
        _check_schema(make_url(storage))
        for pause in AGAIN:
            with contextlib.suppress(IntegrityError, ProgrammingError):
                return optuna.create_study(study_name="ds2", storage=storage, pruner=pruner, load_if_exists=True)
            time.sleep(pause)
        return optuna.create_study(study_name="ds2", storage=storage, pruner=pruner, load_if_exists=True)
    except (SQLAlchemyError, OptunaError, ImportError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"storage = {storage!r}: the database cannot be opened ({_line(error)})") from error


def _check_schema(url: URL) -> None:
    """A file of SQLite may hold views and triggers, which never end, and columns that are computed in memory.

    Raises:
        RuntimeError: it does, or the tables of a study that it names are not all there.
    """
    if url.get_backend_name() != "sqlite" or not Path(url.database or "").is_file():
        return
    with contextlib.closing(sqlite3.connect(str(url.database))) as database:
        try:
            found = database.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall()
            tables = {name for kind, name, _ in found if kind == "table"}
            if executed := [
                name for kind, name, sql in found if kind not in ("table", "index") or EXECUTED.search(sql)
            ]:
                raise RuntimeError(f"{executed[0]} in it is not a plain table")
            begun = "studies" in tables and database.execute("SELECT 1 FROM studies").fetchone()
            if begun and (missing := TABLES - tables):
                raise RuntimeError(f"it has no {', '.join(sorted(missing))}")
        except sqlite3.Error as error:
            raise RuntimeError(str(error)) from error


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The lines of the folder's metrics.jsonl; none if there is no such file."""
    path = folder / "metrics.jsonl"
    return read_metrics(path) if path.exists() else []
