"""ds2 train --fine-tune."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle, locate
from ds2.cli.main import main
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, ModelConfig
from ds2.train.fine_tune import MOST_EPOCHS, fine_tuning
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError

QUICK = ("--set", "epochs=1", "--set", "data.workers=0", "--set", "observe=0", "--device", "cpu")


def test_known_letters_keep_the_alphabet_the_convolutions_and_the_vocabulary(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, output = spoken_digits(10), tmp_path / "run"
    command = ["train", "--fine-tune", "digits-streaming", str(manifest), "--output", str(output), *QUICK]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "the error rates of the epochs are without a language model" in said
    assert f"the model to use will be {output / 'fine-tuned.safetensors'}" in said
    few = "; so few say little, compare both by ds2 eval on others"
    assert re.search(rf"dev.jsonl, 1 utterances: WER [\d.]+% before, [\d.]+% after{few}\n", said)
    before, after = Bundle.load(locate("digits-streaming")), Bundle.load(output / "fine-tuned.safetensors")
    assert after.tokens == before.tokens
    assert after.vocabulary == before.vocabulary
    changed = {name for name, old in before.weights.items() if not torch.equal(old.float(), after.weights[name])}
    assert any(name.startswith("recurrent.") for name in changed)
    assert not any(name.startswith("convolutions.") for name in changed)
    assert [len((output / name).read_text().splitlines()) for name in ("train.jsonl", "dev.jsonl")] == [9, 1]


def test_time_delay_layers_are_trained(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Of a model without recurrent layers only the convolutions below its first time-delay layer are frozen."""
    convolutions = (
        ConvolutionConfig(4, (41, 11), (2, 2)),
        ConvolutionConfig(8, (0, 3), (1, 1)),
        ConvolutionConfig(8, (1, 3), (1, 1), bottleneck=4),
    )
    config, tokens = ModelConfig(convolutions=convolutions, recurrent_layers=0), Bundle.load("digits").tokens
    weights = AcousticModel(config, len(tokens)).state_dict()
    start = tmp_path / "delays.safetensors"
    Bundle(weights=weights, config=to_dict(config), tokens=tokens).save(start)
    output = tmp_path / "run"
    command = ["train", "--fine-tune", str(start), str(spoken_digits(10)), "--output", str(output), *QUICK]
    assert main(command) == 0
    after = Bundle.load(output / "fine-tuned.safetensors").weights
    changed = {name for name, old in weights.items() if not torch.equal(old.float(), after[name].float())}
    assert {".".join(name.split(".")[:2]) for name in changed if name.startswith("convolutions.")} == {"convolutions.2"}


def test_other_letters_make_a_new_alphabet(
    spoken_digits: Callable[[int], Path], tiny_bundle: Path, tmp_path: Path
) -> None:
    config = fine_tuning(str(tiny_bundle), spoken_digits(10), tmp_path / "run")
    assert config.start.new_alphabet
    assert config.start.freeze_epochs < config.epochs == MOST_EPOCHS
    assert config.model.hidden == Bundle.load(tiny_bundle).config["hidden"]


def test_settings_override_what_is_chosen(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    settings = ("optimizer.learning_rate=1e-5", "start.freeze=[]")
    config = fine_tuning("digits", spoken_digits(10), tmp_path / "run", settings)
    assert (config.optimizer.learning_rate, config.start.freeze) == (1e-5, ())


def test_phones_are_learnt_by_the_pronunciations_of_the_bundle(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    config = fine_tuning("english", spoken_digits(10), tmp_path / "run")
    assert config.data.lexicon is not None
    rows = [line.split() for line in config.data.lexicon.read_text().splitlines()]
    lines = "".join((tmp_path / "run" / name).read_text() for name in ("train.jsonl", "dev.jsonl")).splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    assert {word for word, *_ in rows} == set(texts)
    assert next(phones for word, *phones in rows if word == "zero")[0] == "Z"


def test_one_utterance_is_refused(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 2 utterances"):
        fine_tuning("digits", spoken_digits(1), tmp_path / "run")


def test_figures_are_no_new_alphabet(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    manifest = spoken_digits(2)
    rows = [
        json.loads(line) | {"text": text}
        for line, text in zip(manifest.read_text().splitlines(), ("one", "7"), strict=True)
    ]
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(InputError, match=r":2: '7': .*\"lang\": \"en\""):
        fine_tuning("digits", manifest, tmp_path / "tuned")
    manifest.write_text("".join(f"{json.dumps(row | {'lang': 'en'})}\n" for row in rows))
    fine_tuning("digits", manifest, tmp_path / "tuned")
    texts = (tmp_path / "tuned" / "train.jsonl").read_text() + (tmp_path / "tuned" / "dev.jsonl").read_text()
    assert '"seven"' in texts


def retexted(manifest: Path, output: Path) -> Path:
    """A copy of a manifest with other texts of the same letters."""
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    rows = [row | {"text": row["text"][::-1]} for row in rows]
    output.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return output


def test_a_begun_run_keeps_its_files(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other recordings, other texts and other settings are refused before anything is written."""
    manifest, output = spoken_digits(10), tmp_path / "run"
    start = ["train", "--fine-tune", "digits-streaming"]
    assert main([*start, str(manifest), "--output", str(output), *QUICK]) == 0
    before = {path: path.read_bytes() for path in output.iterdir() if path.suffix == ".jsonl"}
    fewer = manifest.with_name("fewer.jsonl")
    fewer.write_text("".join(manifest.read_text().splitlines(keepends=True)[:5]))
    corrected = retexted(manifest, manifest.with_name("corrected.jsonl"))
    other = [
        ([*start, str(fewer)], "with other settings of|other recordings or texts"),
        ([*start, str(corrected)], "began with other recordings or texts; choose another output folder"),
        (["train", "--fine-tune", "digits", str(manifest)], "with other settings of"),
    ]
    for command, why in other:
        capsys.readouterr()
        assert main([*command, "--output", str(output), *QUICK]) == 2
        assert re.search(why, capsys.readouterr().err)
        assert {path: path.read_bytes() for path in output.iterdir() if path.suffix == ".jsonl"} == before


def test_a_wrong_setting_leaves_no_folder(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="epoch"):
        fine_tuning("digits", spoken_digits(10), tmp_path / "run", ("epoch=3",))
    assert not (tmp_path / "run").exists()
