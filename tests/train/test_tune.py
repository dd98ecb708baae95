"""The search: trials in parallel, resumable."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from helpers.studies import SPACE, write_study

from ds2.cli.main import main
from ds2.train.config import TrainConfig
from ds2.train.search_results import write_search_results
from ds2.train.study import read_study
from ds2.train.tune import Tuner
from ds2.utils.config import load_config
from ds2.utils.errors import InputError


@pytest.mark.long
def test_a_grid_survives_kill_9_and_ends_with_every_cell(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Two at a time, the configuration as it is and two cells; killed while two of them train."""
    text = 'method = "grid"\ndevices = ["cpu", "cpu"]\n'
    study, output = write_study(tmp_path, spoken_digits(6), text + SPACE), tmp_path / "found"
    base = tmp_path / "train.toml"  # enough epochs that the first trial still trains when the second one has begun
    base.write_text(base.read_text().replace("epochs = 3", "epochs = 12"))
    command = [sys.executable, "-m", "ds2", "tune", str(study), "--output", str(output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.Popen(command, env=environment)
    while not all((output / f"trial_00{number}" / "checkpoint.pt").exists() for number in (0, 1)):
        assert killed.poll() is None
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    states = [trial.state for trial in open_study(output).trials]
    assert states.count(optuna.trial.TrialState.RUNNING) == 2
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    trials = open_study(output).trials
    assert len(trials) == 3
    assert {trial.state for trial in trials} <= {optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED}
    assert trials[0].params == {}
    assert [trial.params for trial in trials[1:]] == [{"optimizer.learning_rate": rate} for rate in (1e-5, 1e-3)]
    assert "resuming at epoch" in (output / "trial_000" / "log.txt").read_text()
    assert "Nothing did better" in printed or "Best: trial" in printed
    assert load_config(TrainConfig, output / "best.toml").batch_size == 4


HOLD = """
import sys
from pathlib import Path
from ds2.utils.folder_lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_search_that_another_process_runs_is_refused(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Its trials would look interrupted, and be trained a second time."""
    tuner = Tuner(read_study(write_study(tmp_path, spoken_digits(6), SPACE)), tmp_path / "found")
    command = [sys.executable, "-c", HOLD, str(tuner.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"process {holder.pid} writes into this folder"):
            tuner.run()
        holder.communicate()
    assert not tuner.study.trials


def test_machines_share_a_folder_but_no_machine_runs_a_search_twice(
    spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would take the trials of the first for interrupted ones."""
    text = f'method = "grid"\nstorage = "sqlite:///{tmp_path}/shared.db"\n{SPACE}'
    tuner = Tuner(read_study(write_study(tmp_path, spoken_digits(6), text)), tmp_path / "found")
    monkeypatch.setattr(Tuner, "_train", lambda self, trial, device: self.study.tell(trial, 0.5))
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    command = [sys.executable, "-c", HOLD.replace("argv[1])", 'argv[1]), ".here.lock"'), str(tuner.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"process {holder.pid} writes into this folder"):
            tuner.run()
        monkeypatch.setattr("socket.gethostname", lambda: "there")
        tuner.run()
        holder.communicate()
    assert len(tuner.study.trials) == 3


def test_a_grid_whose_queueing_was_killed_ends_with_every_cell(
    spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others were drawn in place of the cells that were not queued yet."""
    space = "[space]\nepochs = {choices = [1, 2, 3]}\nbatch_size = {choices = [1, 2]}\n"
    tuner = Tuner(read_study(write_study(tmp_path, spoken_digits(2), f'method = "grid"\n{space}')), tmp_path / "found")
    monkeypatch.setattr(Tuner, "_train", lambda self, trial, device: self.study.tell(trial, 0.5))
    for cell in ({}, *tuner.plan.cells[:2]):
        tuner.study.enqueue_trial(cell)
    tuner.run()
    assert [trial.params for trial in tuner.study.trials] == [{}, *tuner.plan.cells]


def test_a_search_that_two_machines_began_at_once_has_one_trial_without_changes(
    spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = Tuner(read_study(write_study(tmp_path, spoken_digits(2), SPACE)), tmp_path / "found")
    monkeypatch.setattr(Tuner, "_train", lambda self, trial, device: self.study.tell(trial, 0.5))
    for _ in range(2):
        tuner.study.enqueue_trial({})
    tuner.run()
    assert [bool(trial.params) for trial in tuner.study.trials] == [False] + [True] * (tuner.plan.total - 1)


def test_a_trial_that_was_killed_while_its_parameters_were_drawn_gets_all_of_them(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    """It was trained with those of the configuration in place of the others."""
    space = "[space]\nepochs = {choices = [1, 2, 3]}\nbatch_size = {choices = [1, 2]}\n"
    plan = read_study(write_study(tmp_path, spoken_digits(2), f'method = "grid"\n{space}'))
    tuner = Tuner(plan, tmp_path / "found")
    tuner._plan_trials()
    tuner.study.ask()  # the baseline
    tuner.study.ask({"epochs": plan.distributions["epochs"]})
    first, second = tuner._interrupted()
    assert first.params == {}
    assert second.params == plan.cells[0]


def test_a_resumed_search_draws_other_trials(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    space = '[space]\n"optimizer.learning_rate" = {low = 1e-5, high = 1e-2, log = true}\n'
    plan = read_study(write_study(tmp_path, spoken_digits(6), 'method = "random"\n' + space))
    drawn = []
    for _ in range(2):
        tuner = Tuner(plan, tmp_path / "found")
        drawn += [tuner.study.ask(plan.distributions).params["optimizer.learning_rate"] for _ in range(3)]
    assert len(set(drawn)) == 6


def test_a_machine_leaves_alone_what_others_train(
    spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a database that machines share each continues its own trials; without one all are those of a killed search."""

    def killed(tuner: Tuner, trial: optuna.Trial, folder: Path, process: "subprocess.Popen[bytes]") -> bool:
        process.kill()
        process.wait()
        return False

    monkeypatch.setattr(Tuner, "_watch", killed)
    manifest = spoken_digits(2)
    for storage, continued in ((f'storage = "sqlite:///{tmp_path}/shared.db"\n', [1]), ("", [0, 1])):
        plan = read_study(write_study(tmp_path, manifest, storage + SPACE))
        tuner = Tuner(plan, tmp_path / "found")
        tuner.stopping = True
        for host in ("tune-0", "tune-1"):
            monkeypatch.setattr("socket.gethostname", lambda host=host: host)
            tuner._train(tuner.study.ask(plan.distributions), "cpu")
        assert [trial.number for trial in tuner._interrupted()] == continued


@pytest.mark.long
@pytest.mark.parametrize("method", ["grid", "random"])
def test_a_trial_whose_machine_was_killed_as_it_began_is_continued(
    spoken_digits: Callable[[int], Path], tmp_path: Path, method: str
) -> None:
    """Between its first and its second step in a shared database: nobody knew whose it was, and a cell was lost."""
    text = f'method = "{method}"\ntrials = 3\nstorage = "sqlite:///{tmp_path}/shared.db"\n{SPACE}'
    study, output = write_study(tmp_path, spoken_digits(2), text), tmp_path / "found"
    for _ in range(2):  # the baseline, and a cell or a trial that is drawn
        killed = subprocess.run([sys.executable, "-c", KILLED, str(study), str(output)], capture_output=True, text=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    tuner = Tuner(read_study(study), output)
    running = [trial.number for trial in tuner.study.trials if trial.state == optuna.trial.TrialState.RUNNING]
    assert [trial.number for trial in tuner._interrupted()] == running == [0, 1]
    params = [trial.params for trial in tuner._interrupted()]
    assert params[0] == {}
    assert params[1] in tuner.plan.cells


KILLED = """
import os, signal, sys
from pathlib import Path
from ds2.train.study import read_study
from ds2.train.tune import Tuner

tuner = Tuner(read_study(Path(sys.argv[1])), Path(sys.argv[2]))
tuner._plan_trials()
tuner.study.ask = lambda *space: (type(tuner.study).ask(tuner.study, *space), os.kill(os.getpid(), signal.SIGKILL))
tuner._ask()
"""


def open_study(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="ds2", storage=f"sqlite:///{folder / 'study.db'}")


def test_what_fails_beside_the_trainings_ends_the_search(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """It fails in a thread, whose traceback alone would end no command."""
    tuner = Tuner(read_study(write_study(tmp_path, spoken_digits(2), SPACE)), tmp_path / "found")
    (tmp_path / "found" / "trial_000").write_text("in the way")
    with pytest.raises(InputError, match="trial_000: is no folder"):
        tuner.run()


def test_a_device_that_is_not_there_is_refused_before_any_trial(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    plan = read_study(write_study(tmp_path, spoken_digits(2), f'devices = ["cpu", "cuda:99"]\n{SPACE}'))
    with pytest.raises(InputError, match=r"^devices: 'cuda:99': .*CUDA device"):
        Tuner(plan, tmp_path / "found")
    assert not (tmp_path / "found").exists()


def test_what_too_few_trials_leave_out_is_said(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """On standard output and in results.md."""
    write_study(tmp_path, spoken_digits(2), SPACE)
    finished_study(tmp_path / "study.db")
    text = write_search_results(open_study(tmp_path), tmp_path / "train.toml", tmp_path)
    assert text.endswith("No importance.png: it needs 4 finished trials besides trial 0, there are 1.")
    assert (tmp_path / "results.md").read_text() == text + "\n"
    assert not (tmp_path / "importance.png").exists()


@pytest.mark.parametrize("storage", ["foo", "sqlite:////nowhere/study.db", "foo://database"])
def test_a_storage_that_cannot_be_opened_is_refused_in_one_line(
    spoken_digits: Callable[[int], Path], tmp_path: Path, storage: str
) -> None:
    plan = read_study(write_study(tmp_path, spoken_digits(2), f'storage = "{storage}"\n{SPACE}'))
    with pytest.raises(InputError, match=f"storage = '{storage}'") as refusal:
        Tuner(plan, tmp_path / "found")
    assert "\n" not in str(refusal.value)


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


def finished_study(path: Path) -> None:
    """A study's database in which both trials have ended."""
    study = optuna.create_study(study_name="ds2", storage=f"sqlite:///{path}")
    kind = {"optimizer.learning_rate": optuna.distributions.CategoricalDistribution([1e-5, 1e-3])}
    for parameters, wer in (({}, 0.5), ({"optimizer.learning_rate": 1e-3}, 0.4)):
        distributions = kind if parameters else {}
        values = {"intermediate_values": {1: wer}, "value": wer}
        study.add_trial(optuna.create_trial(params=parameters, distributions=distributions, **values))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE trials SET state = 'x'",
        "UPDATE trials SET number = 'x'",
        "UPDATE trials SET number = NULL",
        "UPDATE trials SET datetime_start = 'x'",
        "UPDATE trial_params SET distribution_json = '5'",
        "UPDATE trial_params SET distribution_json = '{}'",
        "UPDATE trial_params SET distribution_json = x'ff'",
        "UPDATE trial_params SET param_value = 77",
        "UPDATE trial_params SET param_name = 'nowhere.key'",
        "UPDATE trial_values SET value = 'x'",
        "UPDATE trial_values SET value_type = 'x'",
        "UPDATE trial_intermediate_values SET intermediate_value = 'x'",
        "UPDATE trial_intermediate_values SET intermediate_value_type = 'x'",
        "UPDATE study_directions SET direction = 'x'",
        "DELETE FROM study_directions",
        "DROP TABLE trial_values; CREATE VIEW trial_values AS SELECT 1",
        "DROP TABLE trials; CREATE TABLE trials (trial_id INTEGER)",
        "DROP TABLE trial_intermediate_values",
        "ALTER TABLE trials RENAME TO t; CREATE VIEW trials AS SELECT t.* FROM t, (" + ENDLESS + ")",
        "CREATE TRIGGER t BEFORE INSERT ON studies BEGIN SELECT sum(x) FROM (" + ENDLESS + "); END",
        "CREATE TRIGGER t AFTER INSERT ON studies BEGIN SELECT 1; END",
        "ALTER TABLE trial_values ADD COLUMN large GENERATED ALWAYS AS (zeroblob(1000))",
        "CREATE VIRTUAL TABLE other USING fts5(x)",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = 2 WHERE name = 'trials'",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'x' WHERE name = 'trials'",
    ],
)
def test_a_crafted_database_ends_in_one_line(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """Nothing is trained: both trials have ended, if the database says so."""
    text = f"trials = 2\n{SPACE}"
    study, output = write_study(tmp_path, spoken_digits(2), text), tmp_path / "found"
    output.mkdir()
    finished_study(output / "study.db")
    with sqlite3.connect(output / "study.db") as database:
        database.executescript(damage)
    database.close()
    assert main(["tune", str(study), "--output", str(output)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ds2: ")
    assert error.count("\n") == 1
