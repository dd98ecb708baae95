"""What a search found: the table of its trials, the best configuration, which keys mattered."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import tomli_w
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from ds2.train.config import TrainConfig
from ds2.train.study import settings
from ds2.utils.config import load_config, to_dict
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

FEWEST = 4  # finished trials that importance can be told from


def results(study: optuna.Study, folder: Path) -> str:
    """Markdown: the trials, the best first, and whether the search was worth it.

    Raises:
        InputError: not one trial could be trained.
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


def write_results(study: optuna.Study, config: Path, folder: Path) -> str:
    """results.md, whose text is returned, best.toml, importance.png where there is something to draw."""
    text = results(study, folder)
    with atomic_write(folder / "results.md") as partial:
        partial.write_text(text + "\n", encoding="utf-8")
    best = load_config(TrainConfig, config.absolute(), settings(study.best_trial.params))
    with atomic_write(folder / "best.toml") as partial:
        partial.write_text(tomli_w.dumps(without_none(to_dict(best))), encoding="utf-8")
    _draw_importance(study, folder)
    return text


def _draw_importance(study: optuna.Study, folder: Path) -> None:
    """How much of the differences each key explains (PED-ANOVA, Watanabe et al. 2023), beside all trials."""
    searched = [trial for trial in study.trials if trial.number > 0 and trial.value is not None]
    if len(searched) < FEWEST:
        return
    only = optuna.create_study()
    only.add_trials(searched)
    importance = get_param_importances(only, evaluator=PedAnovaImportanceEvaluator())
    draw_importance(folder / "importance.png", importance, searched)


def best_wer(trial: optuna.trial.FrozenTrial) -> float:
    """Infinite for a trial without epochs: the last of all, where NaN has no place in an order."""
    return min(trial.intermediate_values.values(), default=math.inf)


def verdict(best: optuna.trial.FrozenTrial, default: optuna.trial.FrozenTrial | None) -> str:
    if default is None or default.value is None or best.value is None:
        return f"Best: trial {best.number}. The configuration as it is was not trained to its end."
    if best.value >= default.value:
        return f"Nothing did better than the configuration as it is, {default.value:.2%}."
    return f"Best: trial {best.number}, dev WER {best.value:.2%}; the configuration as it is has {default.value:.2%}."


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: keys at None are left to their default."""
    return {
        key: without_none(value)
        if isinstance(value, dict)
        else [without_none(item) if isinstance(item, dict) else item for item in value]
        if isinstance(value, list)
        else value
        for key, value in values.items()
        if value is not None
    }


def draw_importance(path: Path, importance: dict[str, float], trials: Sequence[optuna.trial.FrozenTrial]) -> None:
    """A bar for each key; beside it dev WER against its values, a dot for each trial."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(
        1, 1 + len(importance), figsize=(4 * (1 + len(importance)), 3.5), layout="constrained"
    )
    rows[0].barh(list(importance), list(importance.values()), color="#2171b5")
    rows[0].invert_yaxis()
    rows[0].set(title="importance", xlim=(0, 1))
    for axes, key in zip(rows[1:], importance, strict=True):
        values = [trial.params[key] for trial in trials]
        numeric = all(type(value) in (int, float) for value in values)
        axes.plot(values if numeric else [str(value) for value in values], [100 * (t.value or 0) for t in trials], "o")
        axes.set(xlabel=key, ylabel="dev WER, %")
        if numeric and 0 < 10 * min(values) <= max(values):
            axes.set_xscale("log")
            axes.tick_params(axis="x", which="minor", labelbottom=False)  # they would write over each other
        axes.grid(alpha=0.3)
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=110)
    pyplot.close(figure)
