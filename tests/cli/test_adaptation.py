"""ds2 adapt."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.curation.own_transcripts import LONGEST, mean_confidence, understood
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.utils.model_names import locate

QUICK = ("--set", "epochs=1", "--set", "data.workers=0", "--set", "observe=0", "--device", "cpu")


def test_a_model_learns_from_its_own_transcripts(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The texts of the manifest are not used. A second run finds all that the first one did."""
    utterances, output = read_manifest(spoken_digits(10)), tmp_path / "run"
    files = [str(each.audio_path) for each in utterances]
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"no sound")
    command = ["adapt", *files, str(broken), "--model", "digits-streaming", "--output", str(output), *QUICK]
    assert main(command) == 0
    told = capsys.readouterr()
    assert told.out == f"{output / 'fine-tuned.safetensors'}\n"
    assert "broken.wav" in told.err
    heard = read_manifest(output / "heard.jsonl")
    assert re.search(rf"learning from {len(heard)} utterances, 0\.\d minutes\n", told.err)
    assert len(heard) > 5
    assert {each.audio_path for each in heard} <= {Path(file) for file in files}
    assert all(each.extra["confidence"] >= 0.6 for each in heard)
    before, after = Bundle.load(locate("digits-streaming")), Bundle.load(output / "fine-tuned.safetensors")
    assert after.vocabulary == before.vocabulary
    assert any(not torch.equal(old.float(), after.weights[name]) for name, old in before.weights.items())

    transcripts = sorted((output / "transcripts").glob("*.json"))
    written = [path.stat().st_mtime_ns for path in transcripts]
    assert main(command) == 0
    assert "training has ended after 1 epochs" in capsys.readouterr().err
    assert [path.stat().st_mtime_ns for path in transcripts] == written


def test_silence_teaches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soundfile.write(tmp_path / "silence.wav", np.zeros(16000), 8000)
    command = ["adapt", str(tmp_path / "silence.wav"), "--model", "digits", "--output", str(tmp_path / "run")]
    assert main(command) == 2
    assert "too little was understood to learn from" in capsys.readouterr().err
    assert not (tmp_path / "run" / "heard.jsonl").exists()


def test_a_model_that_hears_too_little_does_not_learn_its_errors(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digits in noise almost as loud as they are: some are heard, and not surely."""
    files, rng = [], np.random.default_rng(0)
    for each in read_manifest(spoken_digits(40)):
        samples, rate = soundfile.read(each.audio_path)
        noise = 0.8 * samples.std() * rng.normal(size=len(samples))
        files.append(str(tmp_path / f"noisy_{each.audio_path.name}"))
        soundfile.write(files[-1], samples + noise, rate)
    assert main(["adapt", *files, "--model", "digits", "--output", str(tmp_path / "run")]) == 2
    assert "of the words right, and would learn its errors" in capsys.readouterr().err
    assert not (tmp_path / "run" / "heard.jsonl").exists()


def test_the_mean_confidence_counts_words() -> None:
    assert mean_confidence([segment("one", 0, 1, 0.5), segment("two three four", 1, 2, 0.9)]) == pytest.approx(0.8)
    assert mean_confidence([]) == 0.0


def segment(text: str, start: float, end: float, confidence: float = 0.9, file: str = "a.wav") -> Utterance:
    return Utterance(Path(file), round(end - start, 3), text, start, extra={"confidence": confidence})


def test_sure_neighbours_are_learnt_from_together() -> None:
    segments = [
        segment("one two three", 0.0, 4.0, 0.9),
        segment("four", 4.5, 6.0, 0.7),
        segment("doubtful", 6.5, 8.0, 0.59),
        segment("after it", 8.5, 10.0),
        segment("too long together", 10.5, 8.5 + LONGEST + 0.1),
        segment("of another file", 30.0, 31.0, file="b.wav"),
        segment("too long", 32.0, 32.1 + LONGEST, file="b.wav"),
        segment("at its end", 53.0, 54.0, file="b.wav"),
    ]
    joined = segment("one two three four", 0.0, 6.0, 0.85)
    assert understood(segments) == [joined, *(segments[place] for place in (3, 4, 5, 7))]


def test_whole_recordings_stay_apart() -> None:
    whole = [Utterance(Path(name), 2.0, "text", extra={"confidence": 0.9}) for name in ("a.wav", "b.wav")]
    assert understood([*whole, Utterance(Path("c.wav"), 2.0, "text")]) == whole
