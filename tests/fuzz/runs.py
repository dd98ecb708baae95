"""Hostile folders of a training, of which `ds2 report` makes a page: figures, observations and checkpoint changed."""

import copy
import io
import json
import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import soundfile
import torch
from conftest import TINY
from fuzz.kind import Files, Kind
from fuzz.mutations import VALUES, dumped, mutated, mutated_json

from ds2.audio.augment import AugmentConfig
from ds2.train.config import DataConfig, TrainConfig
from ds2.train.report import write_run_report
from ds2.train.trainer import Trainer

MARK = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{SECTIONS}}'
PARTS = ("metrics.jsonl", "checkpoint.pt", "best.safetensors", "observed/epoch_0001.pt")
OBSERVED = PARTS[3]
HUGE = 1 << 40  # elements of a tensor that a few bytes hold


def seeds() -> list[Files]:
    """One epoch of the smallest model on two recordings, which are gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = [{"audio_filepath": f"{name}.wav", "duration": 0.5, "text": name} for name in ("one", "two")]
        for number, row in enumerate(rows):
            noise = np.random.default_rng(number).normal(0, 0.1, 4000)
            soundfile.write(folder / row["audio_filepath"], noise, 8000)  # type: ignore[operator]
        manifest = folder / "manifest.jsonl"
        manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
        config = TrainConfig(
            DataConfig((manifest,), manifest, workers=0), TINY, AugmentConfig(), epochs=1, batch_size=2
        )
        Trainer(config, folder / "run").run()
        return [{name: (folder / "run" / name).read_bytes() for name in PARTS}]


def make(rng: Random, valid: list[Files]) -> Files:
    """One part changed: in three of four its values, else its bytes."""
    files = dict(valid[0])
    name = rng.choice(("metrics.jsonl", "checkpoint.pt", OBSERVED, OBSERVED))
    if rng.random() < 0.25:
        files[name] = mutated(rng, files[name])
    elif name == "metrics.jsonl":
        row = mutated_json(rng, json.loads(files[name]))
        files[name] = b"\n".join([dumped(row)] * rng.choice((1, 2, 1000)))
        files[name] = files[name].replace(b'"a"', json.dumps(MARK).encode())
    else:
        state = torch.load(io.BytesIO(files[name]), weights_only=True)
        for _ in range(rng.choice((1, 1, 3))):
            _change(rng, state)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        files[name] = buffer.getvalue()
    return files


def _change(rng: Random, value: Any) -> None:
    """Puts another value anywhere into nested ones."""
    holder, key = value, rng.choice(list(value))
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.8:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    odd = (torch.zeros(0), torch.zeros(3, 0, 2), torch.full((2, 2, 2), torch.nan), torch.zeros(1).expand(HUGE))
    tensors = (*odd, torch.zeros(1, 1).expand(1 << 20, 1 << 20), torch.zeros(3, dtype=torch.complex64), torch.tensor(1))
    match rng.randrange(4):
        case 0:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        case 1:
            holder[key] = rng.choice(tensors)
        case 2:
            holder[key] = MARK
        case _ if isinstance(holder, dict):
            holder[MARK] = holder.pop(key)
        case _:
            holder[key] = [holder[key]] * rng.choice((0, 2, 500))


def enter(path: Path) -> None:
    """Nothing of a run becomes part of the page's markup."""
    page = path.with_name("report.html")
    write_run_report(path.parent, page)
    text = page.read_text()
    assert "<img src=x" not in text
    assert len(re.findall("<script", text)) == 1


KIND = Kind(seeds, make, enter)
