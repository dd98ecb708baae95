"""Hostile manifests and configurations."""

import json
from pathlib import Path
from random import Random
from typing import Any

from fuzz.kind import Files, Kind
from fuzz.mutations import dumped, mutated, mutated_json, mutated_text

from ds2.data.manifest import read_manifest, write_manifest
from ds2.serve.config import read_serve_config
from ds2.train.config import TrainConfig
from ds2.utils.config import load_config, to_dict

RECIPES = Path(__file__).parents[2] / "recipes"
ROWS: list[dict[str, Any]] = [
    {"audio_filepath": "a.wav", "duration": 3.2, "text": "one two", "speaker": "ada", "lang": "en"},
    {"audio_filepath": "b.flac", "duration": 1, "text": "zwölf", "offset": 0.5, "take": [1, {"deep": None}]},
    {"audio_filepath": "/abs/./c.opus", "duration": 1e-3, "text": ""},
]
SERVE = """port = 2700
workers = 2
[limits]
streams = 20
message_bytes = 1000
[decoder]
beam = 32
hot = ["deep=3.5"]
"""


def manifest_seeds() -> list[Files]:
    return [{"manifest.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)}]


def make_manifest(rng: Random, valid: list[Files]) -> Files:
    """Values changed in lines of JSON, or words and bytes of the text."""
    data = rng.choice(valid)["manifest.jsonl"]
    draw = rng.random()
    if draw < 0.2:
        return {"manifest.jsonl": mutated(rng, data)}
    if draw < 0.4:
        return {"manifest.jsonl": mutated_text(rng, data.decode())}
    rows = [mutated_json(rng, row) if rng.random() < 0.6 else row for row in ROWS]
    return {"manifest.jsonl": b"\n".join(map(dumped, rows))}


def enter_manifest(path: Path) -> None:
    """What was read can be written, and reads as the same."""
    utterances = read_manifest(path)
    copy = path.with_name("copy.jsonl")
    write_manifest(copy, utterances)
    read_manifest(copy)


def config_seeds() -> list[Files]:
    """The configurations of all recipes; that of a server is another file."""
    return [{"train.toml": path.read_bytes()} for path in sorted(RECIPES.glob("*/train.toml"))] + [
        {"serve.toml": SERVE.encode()}
    ]


def make_config(rng: Random, valid: list[Files]) -> Files:
    [(name, data)] = rng.choice(valid).items()
    return {name: mutated_text(rng, data.decode())}


def enter_config(path: Path) -> None:
    if path.name == "serve.toml":
        read_serve_config(path, {}, {})
    else:
        to_dict(load_config(TrainConfig, path))


MANIFEST = Kind(manifest_seeds, make_manifest, enter_manifest)
CONFIG = Kind(config_seeds, make_config, enter_config)
