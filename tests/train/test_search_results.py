"""The results of a search."""

from pathlib import Path

import optuna
import pytest

from ds2.train.search_results import results
from ds2.utils.errors import InputError


def test_results_name_the_best_trial_or_the_unchanged_configuration(tmp_path: Path) -> None:
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
