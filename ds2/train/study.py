"""A study: the TOML file that tells `ds2 tune` what to search.

config = "train.toml"           # the configuration that trials change
method = "tpe"                  # or "random", or "grid": the Cartesian product of all choices
trials = 20                     # in all, pruned ones included; a grid has as many as cells
devices = ["cpu", "cpu"]        # one trial at a time on each; "cuda:0", ... on GPUs
[space]                         # any keys of the configuration
"optimizer.learning_rate" = {low = 1e-4, high = 1e-2, log = true}
"model.hidden" = {choices = [64, 96, 128]}
"""

import functools
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ds2.train.config import TrainConfig
from ds2.utils.config import load_config, require

Choice = str | int | float | bool
MOST_CELLS = 10_000  # of a grid: they are queued in the database, one after the other


@dataclass(frozen=True)
class Study:
    """A study's TOML file."""

    config: Path  # a train.toml
    space: dict[str, Any]  # key -> {choices = [...]}, or {low, high, log} of integers or floats
    method: Literal["tpe", "random", "grid"] = "tpe"
    trials: int = 20  # in all; ignored by a grid
    devices: tuple[str, ...] = ("cpu",)  # one trial at a time on each
    epochs_before_pruning: int = 1  # epochs that no trial is pruned in
    seed: int = 1
    storage: str = ""  # URL of a database; empty: study.db in the output folder

    def __post_init__(self) -> None:
        require(self, "at least 1", lambda count: count >= 1, "trials")
        require(self, "0 or more", lambda count: count >= 0, "epochs_before_pruning", "seed")
        if not self.devices or not self.space:
            raise ValueError("devices and [space] must not be empty")
        for key, kind in self.distributions.items():
            if self.method == "grid" and not isinstance(kind, CategoricalDistribution):
                raise ValueError(f"space.{key}: a grid needs {{choices = [...]}}")
        if self.method == "grid" and (count := math.prod(map(len, self._choices))) > MOST_CELLS:
            raise ValueError(f"a grid of {count:,} cells; it may have {MOST_CELLS:,}: leave out choices or use tpe")

    @functools.cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The distribution of each key."""
        return {key: distribution(key, spec) for key, spec in self.space.items()}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells of a grid: the Cartesian product of all choices."""
        return [dict(zip(self.space, cell, strict=True)) for cell in itertools.product(*self._choices)]

    @property
    def _choices(self) -> list[tuple[Any, ...]]:
        """What each key of a grid can be."""
        return [kind.choices for kind in self.distributions.values() if isinstance(kind, CategoricalDistribution)]

    @property
    def total(self) -> int:
        """Number of trials, including the unchanged configuration."""
        return 1 + len(self.cells) if self.method == "grid" else self.trials


def read_study(path: Path) -> Study:
    """Reads and checks a study, the base configuration, and both ends of every range.

    Raises:
        InputError: naming the file and the key.
    """
    study = load_config(Study, path)
    for end in (0, -1):
        parameters = {
            key: (spec.get("choices") or [spec["low"], spec["high"]])[end] for key, spec in study.space.items()
        }
        load_config(TrainConfig, study.config, settings(parameters))
    return study


def distribution(key: str, spec: Any) -> BaseDistribution:
    """The distribution of the values of a key.

    Raises:
        ValueError: `spec` is not of these forms, or a range is empty.
    """
    low, high = (spec.get(end) if isinstance(spec, dict) else None for end in ("low", "high"))
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        raise ValueError(f"space.{key}: low = {low} is above high = {high}")
    try:
        if set(spec) == {"choices"} and isinstance(spec["choices"], list):
            return CategoricalDistribution([_database_value(choice) for choice in spec["choices"]])
        whole = type(spec["low"]) is int and type(spec["high"]) is int
        return (IntDistribution if whole else FloatDistribution)(**spec)
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"space.{key} = {spec!r} must be {{choices = [...]}} or {{low, high, log}}") from error


def _database_value(choice: Any) -> Choice:
    """Lists and tables as JSON text, which a database can hold and which configuration overrides read as TOML."""
    return choice if isinstance(choice, Choice) else json.dumps(choice)


def settings(parameters: dict[str, Any]) -> list[str]:
    """The parameters as overrides, `section.key=value`."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in parameters.items()}
    return [f"{key}={text}" for key, text in texts.items()]
