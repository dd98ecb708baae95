"""Small real recordings and a small real model for the tests that need a whole pipeline."""

import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import soundfile
import torch
from hypothesis import HealthCheck, settings

from ds2.bundle import Bundle
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.utils.config import to_dict

os.environ.setdefault("DS2_KERNELS", "numba")  # also where `ds2 warmup --library` has linked them
# How long an example takes says more of the machine than of the code.
settings.register_profile("ds2", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ds2")
DIGITS = Path(__file__).parents[1] / "recipes" / "digits" / "audio"
TINY = ModelConfig(
    FrontendConfig(8000),
    (ConvolutionConfig(4, (11, 5), (2, 2)), ConvolutionConfig(4, (5, 3), (2, 1))),
    recurrent_layers=1,
    hidden=24,
)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Small tensors gain nothing from threads, and results must not depend on the machine's cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _silent_compiler() -> None:
    """What a test prints must not depend on whether it is the first that compiles a kernel."""
    logging.getLogger("ds2.utils.kernel_cache").setLevel(logging.ERROR)


@pytest.fixture
def spoken_digits(tmp_path: Path) -> Callable[[int], Path]:
    """spoken_digits(n): a manifest of n recordings of single digits, each in a separate WAV."""

    def make(count: int) -> Path:
        rows = [json.loads(line) for line in (DIGITS / "utterances.jsonl").read_text().splitlines()]
        rows = [row for row in rows if row["audio_filepath"] == "fsdd_theo_test.flac"][:count]
        folder = tmp_path / f"digits{count}"
        folder.mkdir()
        lines = []
        for number, row in enumerate(rows):
            start, frames = round(row["offset"] * 8000), round(row["duration"] * 8000)
            samples, rate = soundfile.read(DIGITS / row["audio_filepath"], start=start, frames=frames)
            soundfile.write(folder / f"{number}.wav", samples, rate)
            facts = {"duration": row["duration"], "text": row["text"], "speaker": "theo"}
            lines.append(json.dumps({"audio_filepath": f"{number}.wav", **facts}) + "\n")
        (folder / "manifest.jsonl").write_text("".join(lines))
        return folder / "manifest.jsonl"

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def tiny_bundle(tmp_path: Path) -> Path:
    """An untrained model of five tokens that says something else at every frame."""
    torch.manual_seed(0)
    tokens = ["<blank>", " ", "a", "b", "c"]
    model = AcousticModel(TINY, len(tokens))
    torch.nn.init.normal_(model.output.weight, std=2.0)
    path = tmp_path / "tiny.safetensors"
    Bundle(weights=model.state_dict(), config=to_dict(TINY), tokens=tokens, training={"wer": 1.0}).save(path)
    return path
