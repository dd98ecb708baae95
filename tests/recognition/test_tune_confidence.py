"""ds2 calibrate: a bundle learns what its confidence means, and what is no speech."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.commands import write_noise

from ds2.audio.no_speech import sounds
from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError

ENGLISH = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "manifest.jsonl"


@pytest.mark.parametrize("model", ["digits", "digits-streaming"])
def test_a_bundled_model_hears_no_words_in_noise(model: str) -> None:
    """Sounds of another seed than those that its calibration was fitted to: at most one word a minute."""
    recognizer = Recognizer.load(model, "cpu")
    if recognizer.builder.judge is None:
        pytest.skip("the bundle has no calibration yet")
    words = 0
    for _, samples in sounds(6.0, recognizer.sample_rate, 7):
        words += len(recognizer.transcribe(samples, recognizer.sample_rate).words)
    assert words <= 1


def test_calibrate_writes_a_bundle_that_takes_less_noise_for_speech(
    tmp_path: Path, spoken_digits, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the digits without a calibration; their words stay, those in noise go."""
    bundle = Bundle.load("digits-streaming")
    bare, output = tmp_path / "bare.safetensors", tmp_path / "calibrated.safetensors"
    replace(bundle, confidence=None).save(bare)
    manifest = spoken_digits(30)
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join([*lines[:15], *(line.replace("theo", "another") for line in lines[15:])]))
    assert main(["calibrate", str(manifest), "--model", str(bare), "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "words a minute of synthesised noise" in printed
    assert "fitted to the other half of the speakers: expected calibration error" in printed
    recognizer, before = Recognizer.load(output, "cpu"), Recognizer.load(bare, "cpu")
    assert recognizer.builder.judge is not None
    clips = [str(spoken_digits(n).parent / "0.wav") for n in (1, 2)]
    assert [recognizer.transcribe(clip).text for clip in clips] == [before.transcribe(clip).text for clip in clips]
    [loud] = [samples for name, samples in sounds(10.0, 8000, 1) if name == "melody"]
    assert len(before.transcribe(loud, 8000).words) > len(recognizer.transcribe(loud, 8000).words)


@pytest.mark.long
def test_a_threshold_does_not_fall_unless_speech_is_lost(
    tmp_path: Path, spoken_digits: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The bundle may have been fitted to more noise than a few utterances are calibrated with."""
    bundle = Bundle.load("digits-streaming")
    assert bundle.confidence is not None
    strict, output, noise = tmp_path / "strict.safetensors", tmp_path / "calibrated.safetensors", tmp_path / "noise.wav"
    write_noise(noise)
    command = ["calibrate", str(spoken_digits(12)), "--model", str(strict), "--output", str(output), "--noise"]
    for own in (0.0, 0.13):
        replace(bundle, confidence={**bundle.confidence, "least": own}).save(strict)
        assert main([*command, str(noise)]) == 0
        assert Bundle.load(output).least_confidence >= own
        assert re.search(r"words a minute of the recorded noise: [\d.]+, then 0.00", capsys.readouterr().out)


@pytest.mark.long
def test_utterances_without_speakers_are_halved_themselves(
    tmp_path: Path, spoken_digits, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = spoken_digits(12)
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    manifest.write_text("".join(f"{json.dumps({**row, 'speaker': None})}\n" for row in rows))
    output = tmp_path / "calibrated.safetensors"
    assert main(["calibrate", str(manifest), "--model", "digits-streaming", "--output", str(output)]) == 0
    assert "fitted to the other half of the utterances: expected calibration error" in capsys.readouterr().out


def test_calibrate_refuses_what_teaches_nothing(tmp_path: Path, tiny_bundle: Path) -> None:
    write_noise(tmp_path / "a.wav")
    (tmp_path / "m.jsonl").write_text('{"audio_filepath": "none.wav", "duration": 1.0, "text": "a"}\n')
    assert main(["calibrate", str(tmp_path / "m.jsonl"), "--model", str(tiny_bundle)]) == 2
    assert main(["calibrate", str(tmp_path / "m.jsonl"), "--model", "digits"]) == 2
    assert main(["calibrate", "--model", str(tiny_bundle)]) == 2


def test_the_default_model_writes_english_words() -> None:
    from ds2.data.manifest import read_manifest

    utterances = read_manifest(ENGLISH)
    recognizer = Recognizer.load(device="cpu")
    texts = [recognizer.transcribe(utterance.audio_path).text for utterance in utterances[:2]]
    for utterance, text in zip(utterances, texts, strict=False):
        assert len(set(utterance.text.split()) & set(text.split())) >= 5


def test_damaged_metadata_is_refused(tmp_path: Path, tiny_bundle: Path) -> None:
    bundle = Bundle.load(tiny_bundle)
    replace(bundle, confidence={"weights": [0.0], "bias": 0.0}).save(tmp_path / "damaged.safetensors")
    with pytest.raises(InputError, match="calibrate it again"):
        Recognizer.load(tmp_path / "damaged.safetensors", "cpu")
    assert torch.is_tensor(bundle.weights["output.weight"])


@pytest.mark.long
def test_prose_is_compared_in_the_form_of_the_model(
    tmp_path: Path, spoken_digits, capsys: pytest.CaptureFixture[str]
) -> None:
    """Capitals and punctuation are no errors: what is fitted to texts that the model cannot write is wrong."""
    manifest, output = spoken_digits(10), tmp_path / "calibrated.safetensors"
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    texts = [f"{row['text'].title()}{'.' * (number > 0)}" for number, row in enumerate(rows)]
    rows = [row | {"text": text} for row, text in zip(rows, texts, strict=True)]
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = ["calibrate", str(manifest), "--model", "digits", "--output", str(output)]
    said = "ds2: the texts are taken in their normal form, as by --normalize en\n"
    for options, warning in (([], said), (["--normalize", "en"], "")):
        assert main([*command, *options]) == 0
        printed, warned = capsys.readouterr()
        assert "WER 0.00%" in printed
        assert warning in warned
        assert warned.count("normal form") == len(warning.splitlines())
        assert "references" not in warned
