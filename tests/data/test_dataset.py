"""From utterances to padded batches."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
import torch

from ds2.data.dataset import SpeechDataset, collate, pad, read_utterance
from ds2.data.utterance import Utterance
from ds2.text import Tokenizer
from ds2.utils.errors import InputError


def utterance(path: Path, size: int, text: str) -> Utterance:
    soundfile.write(path, torch.linspace(-0.5, 0.5, size).numpy(), 8000, subtype="FLOAT")
    return Utterance(path, size / 8000, text)


def test_pads_behind_each_utterance(tmp_path: Path) -> None:
    utterances = [utterance(tmp_path / "a.wav", 800, "ab"), utterance(tmp_path / "b.wav", 400, "a")]
    dataset = SpeechDataset(utterances, Tokenizer.from_texts(["ab"]), 8000)  # blank, space, a, b
    batch = collate([dataset[(0, 0)], dataset[(0, 1)]])
    assert batch.samples.shape == (2, 800)
    assert batch.sample_lengths.tolist() == [800, 400]
    assert batch.samples[1, 400:].abs().sum() == 0
    assert batch.targets.tolist() == [[2, 3], [2, 0]]
    assert batch.target_lengths.tolist() == [2, 1]
    assert batch.utterances == utterances


def test_unreadable_utterance_is_listed_and_the_rest_goes_on(tmp_path: Path) -> None:
    utterances = [Utterance(tmp_path / "gone.wav", 1.0, "a"), utterance(tmp_path / "b.wav", 400, "a")]
    dataset = SpeechDataset(utterances, Tokenizer.from_texts(["a"]), 8000)
    assert isinstance(dataset[(0, 0)], InputError)
    batch = collate([dataset[(0, 0)], dataset[(0, 1)]])
    assert batch.samples.shape == (1, 400)
    assert len(batch.skipped) == 1
    assert "gone.wav" in batch.skipped[0]


def test_batch_of_unreadable_utterances_only_is_empty() -> None:
    batch = collate([InputError("x.wav: gone")])
    assert batch.samples.shape == (0, 0)
    assert batch.utterances == []
    assert batch.skipped == ["x.wav: gone"]


def test_offset_takes_a_part_of_the_file(tmp_path: Path) -> None:
    whole = utterance(tmp_path / "a.wav", 800, "a")
    part = Utterance(whole.audio_path, 0.025, "a", offset=0.05)
    assert torch.equal(read_utterance(part, 8000), read_utterance(whole, 8000)[400:600])


def test_pad_of_nothing() -> None:
    rows, lengths = pad([])
    assert rows.shape == (0, 0)
    assert lengths.shape == (0,)


LOAD = """
import sys
from pathlib import Path
from torch.utils.data import DataLoader
from ds2.data.dataset import SpeechDataset, collate
from ds2.data.utterance import Utterance
from ds2.text import Tokenizer
from ds2.utils.errors import WorkerError
dataset = SpeechDataset([Utterance(Path(sys.argv[1]), 20.0, "a")], Tokenizer.from_texts(["a"]), 8000)
try:
    batches = DataLoader(dataset, batch_sampler=[[(0, 0)]], collate_fn=collate, num_workers=1)
    print(*(batch.samples.shape for batch in batches))
except WorkerError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("size", "said"), [("64k", "the shared memory of this machine, /dev/shm, is full"), ("64m", "torch.Size")]
)
def test_full_shared_memory_ends_a_loader(tmp_path: Path, size: str, said: str) -> None:
    utterance(tmp_path / "a.wav", 160_000, "a")
    own = [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        f'mount -t tmpfs -o size={size} tmpfs /dev/shm && "$@"',
        "sh",
    ]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    command = [*own, sys.executable, "-c", LOAD, str(tmp_path / "a.wav")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith(said), done.stderr
