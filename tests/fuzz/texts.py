"""Hostile manifests, configurations, and corpora in the layouts of others."""

import contextlib
import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import soundfile
from fuzz.kind import Files, Kind
from fuzz.mutations import dumped, mutated, mutated_json, mutated_text

from ds2.data.corpus_rows import measured
from ds2.data.layouts import LAYOUTS, guess_layout
from ds2.data.manifest import read_manifest, write_manifest
from ds2.serve.config import read_serve_config
from ds2.train.config import TrainConfig
from ds2.utils.config import load_config, to_dict
from ds2.utils.errors import InputError

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
CUT = {
    "id": "a",
    "start": 0.0,
    "duration": 0.2,
    "channel": 0,
    "supervisions": [{"id": "a", "start": 0.0, "duration": 0.2, "text": "one", "speaker": "ada", "custom": {"x": 1}}],
    "recording": {"duration": 0.2, "sources": [{"type": "file", "channels": [0], "source": "a.wav"}]},
    "type": "MonoCut",
}


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


def corpus_seeds() -> list[Files]:
    """One utterance in Kaldi's tables, as lhotse's cuts, in tables of several kinds, and beside its text."""
    sound = io.BytesIO()
    soundfile.write(sound, np.arange(-800, 800, dtype=np.int16), 8000, format="WAV")
    texts = {"wav.scp": "r a.wav\n", "text": "u one\n", "segments": "u r 0.0 0.1\n", "utt2spk": "u ada\n"}
    common_voice = "client_id\tpath\tsentence\tup_votes\tlocale\nada\ta.wav\tone\t2\ten\n"
    cuts = {"cuts.jsonl.gz": gzip.compress(json.dumps(CUT).encode() + b"\n", 1, mtime=0)}
    corpora = [{name: text.encode() for name, text in texts.items()}, cuts, {"v.tsv": common_voice.encode()}]
    corpora += [{"t.csv": b'path,text\na.wav,"one, two"\n'}, {"metadata.csv": b"a|one\n"}]
    files = {name: sound.getvalue() for name in ("a.wav", "clips/a.wav", "wavs/a.wav")}
    return [*(corpus | files for corpus in corpora), {"a.txt": b"one\n", "a.wav": sound.getvalue()}]


def make_corpus(rng: Random, valid: list[Files]) -> Files:
    """One of its tables changed; that of lhotse is gzipped, and now and then damaged."""
    files = dict(rng.choice(valid))
    name = rng.choice([name for name in files if not name.endswith(".wav")])
    if name != "cuts.jsonl.gz":
        return files | {name: mutated_text(rng, files[name].decode())}
    data = dumped(mutated_json(rng, CUT)) if rng.random() < 0.7 else mutated_text(rng, json.dumps(CUT))
    packed = gzip.compress(data, 1, mtime=0)
    return files | {name: mutated(rng, packed) if rng.random() < 0.2 else packed}


def enter_corpus(path: Path) -> None:
    """Reads it in its own folder: the cuts of lhotse name recordings from there."""
    source = path.parent if path.name in ("wav.scp", "a.txt") else path
    with contextlib.chdir(path.parent):
        _, skipped = measured(LAYOUTS[guess_layout(source)].read(source, path.parent / "audio"))
    if skipped:
        raise InputError(skipped[0])


MANIFEST = Kind(manifest_seeds, make_manifest, enter_manifest)
CONFIG = Kind(config_seeds, make_config, enter_config)
CORPUS = Kind(corpus_seeds, make_corpus, enter_corpus)
