"""The search: read from TOML, side by side, resumable."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from helpers.train_toml import small_toml

from ds2.train.config import TrainConfig
from ds2.train.search_results import results
from ds2.train.study import read_study, settings
from ds2.train.tune import Tuner
from ds2.utils.config import load_config
from ds2.utils.errors import InputError

SPACE = '[space]\n"optimizer.learning_rate" = {choices = [1e-5, 1e-3]}\n'


def write_study(folder: Path, manifest: Path, text: str) -> Path:
    (folder / "train.toml").write_text(small_toml(manifest))
    (folder / "study.toml").write_text(f'config = "train.toml"\n{text}')
    return folder / "study.toml"


def test_a_grid_survives_kill_9_and_ends_with_every_cell(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Two at a time, the configuration as it is and two cells; killed while two of them train."""
    text = 'method = "grid"\ndevices = ["cpu", "cpu"]\n'
    study, output = write_study(tmp_path, spoken_digits(6), text + SPACE), tmp_path / "found"
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


def test_a_search_that_goes_on_draws_other_trials(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    space = '[space]\n"optimizer.learning_rate" = {low = 1e-5, high = 1e-2, log = true}\n'
    plan = read_study(write_study(tmp_path, spoken_digits(6), 'method = "random"\n' + space))
    drawn = []
    for _ in range(2):
        tuner = Tuner(plan, tmp_path / "found")
        drawn += [tuner.study.ask(plan.distributions).params["optimizer.learning_rate"] for _ in range(3)]
    assert len(set(drawn)) == 6


def open_study(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="ds2", storage=f"sqlite:///{folder / 'study.db'}")


def test_results_name_the_best_or_say_that_nothing_was_better(tmp_path: Path) -> None:
    study = optuna.create_study()
    for value, parameters in ((0.5, {}), (0.2, {"x": 0.1})):
        kinds = {key: optuna.distributions.FloatDistribution(0, 1) for key in parameters}
        study.add_trial(optuna.trial.create_trial(value=value, params=parameters, distributions=kinds,
                                                  intermediate_values={1: value}))  # fmt: skip
    text = results(study, tmp_path)
    assert "Best: trial 1, dev WER 20.00%; the configuration as it is has 50.00%." in text
    assert text.index("| 1 | complete") < text.index("| 0 | complete")
    study.add_trial(optuna.trial.create_trial(value=0.1, intermediate_values={1: 0.1}))
    worse = optuna.create_study()
    worse.add_trials([study.trials[2], study.trials[1]])
    assert "Nothing did better than the configuration as it is, 10.00%." in results(worse, tmp_path)
    with pytest.raises(InputError, match="no trial"):
        results(optuna.create_study(), tmp_path)


def test_trials_without_epochs_come_last(tmp_path: Path) -> None:
    study = optuna.create_study()
    for value in (0.5, None, 0.2):
        state = optuna.trial.TrialState.COMPLETE if value else optuna.trial.TrialState.FAIL
        epochs = {1: value} if value else {}
        study.add_trial(optuna.trial.create_trial(state=state, value=value, intermediate_values=epochs))
    text = results(study, tmp_path)
    assert "Best: trial 2, dev WER 20.00%" in text
    assert [line[:3] for line in text.splitlines()[2:5]] == ["| 2", "| 0", "| 1"]
    assert "| 1 | fail | 0 | - |" in text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[space]\n", "must not be empty"),
        ('method = "best"\n' + SPACE, "method = 'best' must be one of 'tpe', 'random', 'grid'"),
        ("trials = 0\n" + SPACE, "trials = 0 must be at least 1"),
        ('trials = "x"\n' + SPACE, "trials = 'x' must be of type int"),
        ('devices = "cpu"\n' + SPACE, "devices = 'cpu' must be a list"),
        ("devices = []\n" + SPACE, "devices and"),
        ("space = 3\n", "space = 3 must be a section of keys"),
        ("", "space is missing"),
        ("trails = 3\n" + SPACE, "unknown key trails"),
        ("[space]\nepochs = {low = 1}\n", r"space\.epochs"),
        ("[space]\nepochs = 3\n", r"space\.epochs = 3"),
        ('[space]\nepochs = {choices = "12"}\n', r"space\.epochs"),
        ("[space]\nepochs = {low = 1, high = -1}\n", r"space\.epochs"),
        ('method = "grid"\n[space]\nepochs = {low = 1, high = 2}\n', r"space\.epochs: a grid needs"),
        ('[space]\n"optimizer.momentum" = {low = 0.5, high = 1.5}\n', "momentum = 1.5"),
        ("[space]\nepoch = {choices = [1]}\n", "did you mean epochs"),
        ('[space]\n"model.hidden" = {choices = ["many"]}\n', "model.hidden = 'many'"),
        ("method = \n", "TOML"),
    ],
)
def test_bad_studies_are_refused_in_one_line(
    spoken_digits: Callable[[int], Path], tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as refusal:
        read_study(write_study(tmp_path, spoken_digits(2), text))
    assert "\n" not in str(refusal.value)


def test_a_study_needs_a_configuration_file(tmp_path: Path) -> None:
    for text, complaint in ((f"config = 5\n{SPACE}", "config = 5 must be of type Path"), (SPACE, "config is missing")):
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(InputError, match=rf"study\.toml: {complaint}"):
            read_study(tmp_path / "study.toml")


@pytest.mark.parametrize("storage", ["foo", "sqlite:////nowhere/study.db", "foo://database"])
def test_a_storage_that_is_none_is_refused_in_one_line(
    spoken_digits: Callable[[int], Path], tmp_path: Path, storage: str
) -> None:
    plan = read_study(write_study(tmp_path, spoken_digits(2), f'storage = "{storage}"\n{SPACE}'))
    with pytest.raises(InputError, match=f"storage = '{storage}'") as refusal:
        Tuner(plan, tmp_path / "found")
    assert "\n" not in str(refusal.value)


def test_values_travel_as_toml() -> None:
    shapes = json.dumps([{"channels": 4, "kernel": [3, 3], "stride": [2, 2]}])
    texts = settings({"sortagrad": True, "optimizer.learning_rate": 1e-5, "optimizer.name": "sgd", "x": shapes})
    assert texts[:3] == ["sortagrad=true", "optimizer.learning_rate=1e-05", "optimizer.name=sgd"]
