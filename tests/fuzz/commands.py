"""Hostile files given to whole commands: models, tables of words, texts, configurations and manifests."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import soundfile
from conftest import TINY
from fuzz.kind import Files, Kind
from fuzz.models import ORDERS, bundle_seeds, make_safetensors, random_bundle, saved
from fuzz.mutations import dumped, mutated, mutated_json, mutated_text

from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.lm.arpa import write_arpa
from ds2.utils.errors import InputError

COMMAND = "command.json"  # its arguments; all other files of an input lie beside it
TRAINING = """epochs = 1
batch_size = 2
[data]
train = ["data.jsonl"]
dev = "data.jsonl"
workers = 0
[model]
hidden = 24
recurrent_layers = 1
convolutions = [
    {channels = 4, kernel = [11, 5], stride = [2, 2]},
    {channels = 4, kernel = [5, 3], stride = [2, 1]},
]
[model.frontend]
sample_rate = 8000
[optimizer]
name = "sgd"
learning_rate = 1e-4
[augment]
speed = [0.9, 1.1]
"""
WITH_MODEL = (  # commands that read a model; the bundle is what is changed
    "transcribe a.wav --model model.safetensors --format txt,json --output out --beam 8 --alternatives 3",
    "transcribe a.wav --model model.safetensors --engine torch --precision int8 --format json --output out",
    "transcribe a.wav --model model.safetensors --beam 8 --lm lm.arpa --rescore lm.arpa --output out",
    "eval data.jsonl --model model.safetensors --listing listing.txt --page page.html --calibration calibration.png",
    "tune-decoder data.jsonl --model model.safetensors --lm lm.arpa --output out.safetensors",
    "align a.wav a.txt --model model.safetensors --format TextGrid,json,ctm,srt --output out",
    "segment a.wav a.txt --model model.safetensors --shortest 0.1 --output out",
    "average model.safetensors model.safetensors --output out.safetensors",
    "export model.safetensors --weights int8 --output out",
    "train data.jsonl --fine-tune model.safetensors --set epochs=1 --output run",
    "train train.toml --set start_from=model.safetensors --output run",
)
WITH_TEXT = {  # commands, and the file that is changed
    "tune-decoder data.jsonl --model model.safetensors --lm lm.arpa --lexicon words.dict --output out.safetensors": (
        "words.dict"
    ),
    "tune-decoder data.jsonl --model model.safetensors --lm lm.arpa --closed --output out.safetensors": "lm.arpa",
    "transcribe a.wav --model model.safetensors --lm lm.arpa --output out": "lm.arpa",
    "lm mix lm.arpa lm.arpa --dev a.txt --output out.arpa": "lm.arpa",
    "lm prune lm.arpa --threshold 1e-3 --output out.arpa": "lm.arpa",
    "lm prune lm.arpa --ngrams 5 --histories lm.arpa --output out.arpa": "lm.arpa",
    "lm compile lm.arpa --quantize --output out.lm": "lm.arpa",
    "lm score lm.arpa a.txt": "lm.arpa",
    "lm info lm.arpa": "lm.arpa",
    "lm build a.txt --order 3 --words words.dict --output out.arpa": "words.dict",
    "lm build a.txt --order 3 --output out.arpa": "a.txt",
    "lm vocabulary a.txt --dev a.txt --size 3 --output out.txt": "a.txt",
    "align a.wav a.txt --model model.safetensors --output out": "a.txt",
    "segment a.wav a.txt --shortest 0.1 --model model.safetensors --output out": "a.txt",
    "train train.toml --set epochs=1 --output run": "train.toml",
    "find-rate train.toml --batches 20 --output out.png": "train.toml",
    "train data.jsonl --set epochs=1 --fine-tune model.safetensors --output run": "data.jsonl",
    "eval data.jsonl --model model.safetensors --by speaker --page page.html --against other.json": "data.jsonl",
    "eval data.jsonl --model model.safetensors --against other.json": "other.json",
    "eval data.jsonl --model model.safetensors --against data.jsonl": "data.jsonl",
    "data validate data.jsonl --report out.jsonl --clean clean": "data.jsonl",
    "data stats data.jsonl --picture out.png": "data.jsonl",
    "data split data.jsonl --by utterance --test 0.5 --dev 0 --output out": "data.jsonl",
    "data merge data.jsonl --output out.jsonl": "data.jsonl",
    "data sample data.jsonl --hours 0.0002 --output out.jsonl": "data.jsonl",
    "data compile data.jsonl --output out.arrow": "data.jsonl",
    "data convert data.jsonl --to kaldi --language en --output out": "data.jsonl",
    "data convert data.jsonl --to lhotse --output out.jsonl.gz": "data.jsonl",
    "data convert data.jsonl --to parquet --output out.parquet": "data.jsonl",
    "data shard data.jsonl --hours 0.0002 --output out": "data.jsonl",
    "data mix data.jsonl --noise a.wav --channel-probability 0.5 --jobs 1 --output out": "data.jsonl",
    "models pull x --index models.json --output pulled": "models.json",
}


def seeds() -> list[Files]:
    """For each command what it reads: half a second of sound, two lines, models, words."""
    sound = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, 4000)
    soundfile.write(sound, noise, 8000, format="WAV")
    rows = [{"audio_filepath": f"{name}.wav", "duration": 0.5, "text": "a b", "speaker": name} for name in "ab"]
    models = [files["model.safetensors"] for files in bundle_seeds()]
    bundle = {"url": "", "size": len(models[0]), "sha256": hashlib.sha256(models[0]).hexdigest()}
    index = {"models": {"x": {"about": "", "bundle": bundle}}}
    files = {
        "a.wav": sound.getvalue(),
        "b.wav": sound.getvalue(),
        "a.txt": b"a b\nb c\n",
        "data.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in rows),
        "lm.arpa": saved(lambda path: write_arpa(path, *ORDERS)),
        "words.dict": b"a  AA0\nb  B\nab  AA1 B\n",
        "train.toml": TRAINING.encode(),
        "other.json": json.dumps({"a.wav": "a", "b.wav": "b"}).encode(),
        "x.safetensors": models[0],
        "models.json": json.dumps(index).encode(),
    }
    phones = saved(random_bundle(dataclasses.replace(TINY, phones=41)).save)
    changed = [(command, name, phones if "words.dict" in command else models[0]) for command, name in WITH_TEXT.items()]
    for command in WITH_MODEL:
        fitting = [*models[:5], phones]
        if command.startswith("train"):  # it takes its time, and fine-tuning wants the phones of English, or none
            fitting = models[:1]
        elif command.startswith(("align", "segment")):  # by these phones the text does not fit the noise
            fitting = models[:5]
        changed += [(command, "model.safetensors", model) for model in fitting]
    return [
        {COMMAND: json.dumps({"arguments": command.split(), "changed": name}).encode(), "model.safetensors": model}
        | files
        for command, name, model in changed
    ]


def make(rng: Random, valid: list[Files]) -> Files:
    """One file of a command, changed as one of its kind."""
    files = dict(rng.choice(valid))
    name = json.loads(files[COMMAND])["changed"]
    data = files[name]
    if name.endswith(".safetensors"):
        return files | make_safetensors(rng, [{name: data}])
    if rng.random() < 0.1:
        return files | {name: mutated(rng, data)}
    if name.endswith(".json"):
        return files | {name: dumped(mutated_json(rng, json.loads(data)))}
    if name.endswith(".jsonl") and rng.random() < 0.8:
        rows: list[Any] = [json.loads(line) for line in data.splitlines()]
        return files | {name: b"\n".join(dumped(mutated_json(rng, row)) for row in rows)}
    return files | {name: mutated_text(rng, data.decode())}


def enter(path: Path) -> None:
    """Its exit code is one of ours, the last line of a refusal says why, and a model that it writes can be read."""
    arguments = json.loads(path.read_bytes())["arguments"]
    errors = io.StringIO()
    with (
        contextlib.chdir(path.parent),
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(errors),
        contextlib.redirect_stdout(nowhere),
    ):
        code = main(arguments)
    assert code in (0, 1, 2), code
    lines = errors.getvalue().splitlines()
    assert "Traceback" not in errors.getvalue(), errors.getvalue()
    if code == 2:
        assert lines[-1].startswith("ds2: "), lines
        raise InputError(lines[-1])
    for written in path.parent.glob("out*.safetensors"):
        Bundle.load(written)


KIND = Kind(seeds, make, enter)
