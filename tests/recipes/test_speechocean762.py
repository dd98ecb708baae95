"""The recipe of read English finds both corpora in either layout."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile
from helpers.scripts import run_script

from ds2.data.manifest import read_manifest

RECIPE = Path(__file__).parents[2] / "recipes" / "speechocean762"


def noise(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 16000), 16000)


def test_published_layouts_and_local_copies_give_the_same(tmp_path: Path) -> None:
    """Speaker 0026 reads digits in the test set: never in training."""
    kaldi, copy, kathleen = tmp_path / "kaldi", tmp_path / "copy", tmp_path / "kathleen"
    rows = []
    tables: dict[str, list[str]] = {"text": [], "utt2spk": [], "wav.scp": []}
    for number, speaker in enumerate(["0001", "0002", "0003", "0004", "0006", "0007", "0008", "0026"]):
        name, audio = f"{speaker}0001", f"WAVE/SPEAKER{speaker}/{speaker}0001.WAV"
        noise(kaldi / audio)
        noise(copy / f"audio/{name}.wav")
        tables["text"].append(f"{name}\tWE CALL IT BEAR {'ONE ' * number}".strip())
        tables["utt2spk"].append(f"{name} {speaker}")
        tables["wav.scp"].append(f"{name}\t{audio}")
        text = f"we call it bear {'one ' * number}".strip()
        rows.append({"audio_filepath": f"audio/{name}.wav", "duration": 1.0, "text": text, "speaker": speaker})
    (kaldi / "train").mkdir()
    for table, lines in tables.items():
        (kaldi / "train" / table).write_text("\n".join(lines) + "\n")
    (copy / "manifest.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    noise(kathleen / "wav" / "arctic_1.wav")
    (kathleen / "metadata.csv").write_text("arctic_1|Author of the danger trail, 21 steps.\n")
    texts = []
    for corpus in (kaldi, copy):
        output = tmp_path / f"{corpus.name}-data"
        arguments = ["--speechocean762", corpus, "--kathleen", kathleen, "--output", output, "--without-readers"]
        run_script(RECIPE / "prepare.py", *arguments)
        splits = [read_manifest(output / f"{split}.jsonl") for split in ("train", "dev")]
        assert "0026" not in {utterance.speaker for split in splits for utterance in split}
        assert len({utterance.speaker for utterance in splits[1]}) == 6
        texts.append([[utterance.text for utterance in split] for split in splits])
    assert texts[0] == texts[1]
    assert "author of the danger trail twenty one steps" in texts[0][0]


def test_too_few_speakers_and_a_missing_package_are_told(tmp_path: Path) -> None:
    """The 21 of the text needs num2words, which comes with an extra."""
    rows = []
    for speaker in ("0001", "0002", "0003", "0004", "0006", "0007"):
        noise(tmp_path / "corpus" / f"{speaker}.wav")
        rows.append({"audio_filepath": f"{speaker}.wav", "duration": 1.0, "text": "21 steps", "speaker": speaker})
    manifest = tmp_path / "corpus" / "manifest.jsonl"
    manifest.write_text("\n".join(map(json.dumps, rows)) + "\n")
    blocked = "import runpy, sys; del sys.argv[0]; sys.modules['num2words'] = None"
    code = f"{blocked}; runpy.run_path(sys.argv[0], run_name='__main__')"
    arguments = [RECIPE / "prepare.py", "--speechocean762", tmp_path / "corpus", "--output", tmp_path / "data"]
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("prepare.py: num2words is not installed; in ds2's checkout, pip install ")
    manifest.write_text("\n".join(map(json.dumps, rows[:5])) + "\n")
    result = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == f"prepare.py: {tmp_path / 'corpus'}: 5 speakers; dev alone wants 6\n"
