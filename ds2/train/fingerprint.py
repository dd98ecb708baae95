"""The fingerprint of a run: what must not change between a checkpoint and its resumption."""

import json
from pathlib import Path
from typing import Any

from ds2.train.config import TrainConfig
from ds2.train.data import TrainingData
from ds2.utils.config import from_dict, to_dict
from ds2.utils.errors import InputError, some_of

FREE = ("parallel", "checkpoint_minutes", "accumulate", "profile", "observe")  # keys that may change
GROWING = ("epochs", "patience")  # keys that may grow, to train on
SHOWN, LONGEST = 4, 40  # values that differ and characters of each, in a message
OF_DATA = ("utterances", "hours", "texts")  # of the data sets, beside the keys of the configuration


def fingerprint(config: TrainConfig, data: TrainingData) -> dict[str, Any]:
    """What a continued training must have in common with its beginning."""
    texts = data.digest_of_texts
    return {**fixed_values(config), "utterances": len(data.train), "hours": data.hours, "texts": texts}


def check_fingerprint(path: Path, saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Compares the fingerprint in the checkpoint `path` with that of this run; one of version 0.1 fits as well.

    More epochs or patience train on in the same folder. `now` may hold some of the keys only.

    Raises:
        InputError: they differ; the message names the keys, or says that the data has changed.
    """
    then = {**fixed_values(saved_config(path, saved)), **{name: saved.get(name) for name in OF_DATA}}
    changed = [key for key in now if now[key] != then[key] and not (key in GROWING and now[key] > then[key])]
    if then["texts"] is None and "texts" in changed:  # a checkpoint from before texts were compared
        changed.remove("texts")
    of_data = [key for key in changed if key in OF_DATA]
    settings = [key for key in changed if key not in OF_DATA]
    differing = [line for key in settings for line in _differences(key, then[key], now[key])]
    others = [f"settings: {some_of(differing, SHOWN)}"] if settings else []
    if of_data and "data" not in settings:  # other manifests have other utterances
        others.append(f"data: data.train or data.dev has changed ({', '.join(of_data)})")
    if others:
        reason = f"the checkpoint was made with {' and '.join(f'other {other}' for other in others)}"
        remedy = "resume with the same, or choose another output folder"
        if settings == ["epochs"]:
            remedy += "; if no more epochs are wanted, the model so far is best.safetensors there"
        raise InputError(f"{path}: {reason}; {remedy}")


def _differences(key: str, then: Any, now: Any) -> list[str]:
    """The values below a key that differ: `epochs = 8, not 6`."""
    if isinstance(then, dict) and isinstance(now, dict):
        inner = sorted(then.keys() | now.keys())
        return [line for name in inner for line in _differences(f"{key}.{name}", then.get(name), now.get(name))]
    return [] if then == now else [f"{key} = {_short_json(then)}, not {_short_json(now)}"]


def _short_json(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def saved_config(path: Path, saved: dict[str, Any]) -> TrainConfig:
    """The configuration in a fingerprint; keys that may change are at their defaults."""
    if not isinstance(saved, dict):
        raise InputError(f"{path}: the checkpoint holds no configuration")
    return from_dict(TrainConfig, {key: value for key, value in saved.items() if key not in OF_DATA}, str(path))


def fixed_values(config: TrainConfig) -> dict[str, Any]:
    """The values of a configuration that must not change."""
    values = to_dict(config)
    for free in FREE:
        del values[free]
    del values["data"]["workers"]
    return values
