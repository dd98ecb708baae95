"""Results of a search: the table of its trials, the best configuration, and which keys mattered."""

import math
from pathlib import Path
from typing import Any

import optuna
import tomli_w
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from ds2.train.config import TrainConfig
from ds2.train.plots import draw_importance
from ds2.train.study import settings
from ds2.utils.config import load_config, to_dict
from ds2.utils.errors import InputError
from ds2.utils.files import write_text

FEWEST = 4  # finished trials needed to estimate importance


def results(study: optuna.Study, folder: Path) -> str:
    """Markdown: the trials, the best first, and whether any did better than the configuration as it is.

    Raises:
        InputError: no trial was trained to its end.
    """
    trials = sorted(study.trials, key=lambda trial: (best_wer(trial), trial.number))
    finished = [trial for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    if not finished:
        raise InputError(f"{folder}: no trial was trained to its end; see trial_*/log.txt")
    rows = ["| trial | state | epochs | best dev WER | changes |", "|---|---|---|---|---|"]
    for trial in trials:
        changes = ", ".join(settings(trial.params)) or "none: the configuration as it is"
        epochs = len(trial.intermediate_values)
        wer = f"{best_wer(trial):.2%}" if epochs else "-"
        rows.append(f"| {trial.number} | {trial.state.name.lower()} | {epochs} | {wer} | {changes} |")
    default = next((trial for trial in finished if trial.number == 0), None)
    return "\n".join([*rows, "", verdict(finished[0], default)])


def write_search_results(study: optuna.Study, config: Path, folder: Path) -> str:
    """Writes results.md, whose text it returns, best.toml, and importance.png where there are enough trials."""
    text = results(study, folder)
    searched = [trial for trial in study.trials if trial.number > 0 and trial.value is not None]
    if len(searched) < FEWEST:
        text += f"\n\nNo importance.png: it needs {FEWEST} finished trials besides trial 0, there are {len(searched)}."
    write_text(folder / "results.md", text + "\n")
    best = load_config(TrainConfig, config.absolute(), settings(study.best_trial.params))
    write_text(folder / "best.toml", tomli_w.dumps(without_none(to_dict(best))))
    if len(searched) >= FEWEST:
        _draw_importance(searched, folder)
    return text


def _draw_importance(searched: list[optuna.trial.FrozenTrial], folder: Path) -> None:
    """Draws how much each key explains (PED-ANOVA, Watanabe et al. 2023), and all trials but the baseline."""
    only = optuna.create_study()
    only.add_trials(searched)
    importance = get_param_importances(only, evaluator=PedAnovaImportanceEvaluator())
    draw_importance(folder / "importance.png", importance, searched)


def best_wer(trial: optuna.trial.FrozenTrial) -> float:
    """The lowest dev WER of any epoch; infinite without one, so that such trials come last."""
    return min(trial.intermediate_values.values(), default=math.inf)


def verdict(best: optuna.trial.FrozenTrial, default: optuna.trial.FrozenTrial | None) -> str:
    """A sentence that compares the best trial with the configuration as it is."""
    if default is None or default.value is None or best.value is None:
        return f"Best: trial {best.number}. The configuration as it is was not trained to its end."
    if best.value >= default.value:
        return f"Nothing did better than the configuration as it is, {default.value:.2%}."
    return f"Best: trial {best.number}, dev WER {best.value:.2%}; the configuration as it is has {default.value:.2%}."


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Removes the keys whose value is None, which TOML cannot write: they keep their default."""
    return {
        key: without_none(value)
        if isinstance(value, dict)
        else [without_none(item) if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
        for key, value in values.items()
        if value is not None
    }
