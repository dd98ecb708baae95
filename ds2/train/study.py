"""What `ds2 tune` searches: a study's TOML file.

config = "train.toml"           # what every trial starts from
method = "tpe"                  # or "random", or "grid": the Cartesian product of all choices
trials = 20                     # in all, pruned ones among them; a grid has as many as it has cells
devices = ["cpu", "cpu"]        # one trial at a time on each; "cuda:0", ... on GPUs
[space]                         # any key of the configuration, dotted
"optimizer.learning_rate" = {low = 1e-4, high = 1e-2, log = true}
"model.hidden" = {choices = [64, 96, 128]}
"""

import itertools
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import optuna

from ds2.config import load_config
from ds2.errors import InputError
from ds2.train.config import TrainConfig

Choice = str | int | float | bool


@dataclass(frozen=True)
class Study:
    """A study's TOML file; `space` is checked by `read_study`."""

    config: Path
    method: Literal["tpe", "random", "grid"]
    trials: int
    devices: tuple[str, ...]
    epochs_before_pruning: int
    seed: int
    storage: str  # URL of a database; empty: study.db in the output folder
    space: dict[str, optuna.distributions.BaseDistribution]

    @property
    def grid(self) -> dict[str, list[Any]]:
        """Every key's choices.

        Raises:
            InputError: a key has none.
        """
        choices = {key: list(getattr(kind, "choices", ())) for key, kind in self.space.items()}
        for key, found in choices.items():
            if not found:
                raise InputError(f"space.{key}: a grid needs {{choices = [...]}}")
        return choices

    @property
    def total(self) -> int:
        """Trials, that of the configuration as it is included."""
        return 1 + len(list(itertools.product(*self.grid.values()))) if self.method == "grid" else self.trials


def read_study(path: Path) -> Study:
    """Reads and checks a study, the base configuration and the name of every key that is varied included.

    Raises:
        InputError: naming the file and the key.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML ({error})") from error
    space = values.pop("space", {})
    known = {"method": "tpe", "trials": 20, "devices": ["cpu"], "epochs_before_pruning": 1, "seed": 1, "storage": ""}
    unknown = set(values) - set(known) - {"config"}
    if unknown or "config" not in values:
        raise InputError(f"{path}: {'unknown key ' + min(unknown) if unknown else 'config is missing'}")
    values = {
        **known,
        **values,
        "config": path.parent / values["config"],
        "devices": tuple(values.get("devices", ["cpu"])),
    }
    if values["method"] not in ("tpe", "random", "grid") or not values["devices"] or not space:
        raise InputError(f"{path}: method must be tpe, random or grid; devices and [space] must not be empty")
    distributions = {key: _distribution(path, key, spec) for key, spec in space.items()}
    load_config(TrainConfig, values["config"], settings({key: first(spec) for key, spec in space.items()}))
    return Study(space=distributions, **values)


def _distribution(path: Path, key: str, spec: Any) -> optuna.distributions.BaseDistribution:
    """{choices = [...]}, or {low, high, log} of integers or decimals."""
    try:
        if set(spec) == {"choices"} and spec["choices"]:
            return optuna.distributions.CategoricalDistribution([_plain(choice) for choice in spec["choices"]])
        whole = type(spec["low"]) is int and type(spec["high"]) is int
        kind = optuna.distributions.IntDistribution if whole else optuna.distributions.FloatDistribution
        return kind(**spec)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"{path}: space.{key} = {spec!r} must be {{choices = [...]}} or {{low, high, log}}") from error


def _plain(choice: Any) -> Choice:
    """Lists and tables, which a database cannot hold, as their text in JSON, which `--set` reads as TOML."""
    return choice if isinstance(choice, Choice) else json.dumps(choice)


def first(spec: dict[str, Any]) -> Any:
    return spec["choices"][0] if "choices" in spec else spec["low"]


def settings(parameters: dict[str, Any]) -> list[str]:
    """As `--set` takes them."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in parameters.items()}
    return [f"{key}={text}" for key, text in texts.items()]
