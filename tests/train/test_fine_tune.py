"""ds2 train --fine-tune."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, ModelConfig
from ds2.recognition.bundled_search import bundled_pronunciations
from ds2.train.config import DataConfig, TrainConfig
from ds2.train.fine_tune import MOST_EPOCHS, fine_tuning, save_fine_tuned, with_search_of
from ds2.train.report import write_run_report
from ds2.train.trainer import Trainer
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError
from ds2.utils.model_names import locate

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
    found = re.search(rf"dev.jsonl, [1-9] utterances?: WER ([\d.]+)% before, ([\d.]+)% after{few}(.*)\n", said)
    assert found is not None
    assert ("keep it" in found[3]) == (float(found[2]) > float(found[1]))
    assert (
        f"still that of digits-streaming: ds2 calibrate OTHERS.jsonl --model {output / 'fine-tuned.safetensors'}"
        in said
    )
    write_run_report(output, output / "report.html")
    tile = f"<b>{found[2]}%</b><span>dev WER after fine-tuning, with the whole search; before {found[1]}%"
    page = (output / "report.html").read_text()
    assert tile in page
    assert "By the whole search: " in page
    before, after = Bundle.load(locate("digits-streaming")), Bundle.load(output / "fine-tuned.safetensors")
    assert after.tokens == before.tokens
    assert after.vocabulary == before.vocabulary
    of_before = {key: before.training[key] for key in ("corpus", "hours")}
    assert after.training["origin"] == {"model": "digits-streaming", **of_before}
    changed = {name for name, old in before.weights.items() if not torch.equal(old.float(), after.weights[name])}
    assert any(name.startswith("recurrent.") for name in changed)
    assert not any(name.startswith("convolutions.") for name in changed)
    assert [len((output / name).read_text().splitlines()) for name in ("train.jsonl", "dev.jsonl")] == [7, 3]


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


@pytest.mark.parametrize("value", [math.nan, -math.inf, 3e38])
def test_weights_that_are_not_finite_are_refused_by_name(
    spoken_digits: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], value: float
) -> None:
    """They trained to the end at a loss of NaN, or ended in an error of TensorBoard."""
    bundle, output = Bundle.load("digits-streaming"), tmp_path / "run"
    weights = {name: tensor.float() for name, tensor in bundle.weights.items()}
    weights["output.weight"][1, 2] = value
    replace(bundle, weights=weights).save(start := tmp_path / "bad.safetensors")
    manifest = spoken_digits(4)
    assert main(["train", "--fine-tune", str(start), str(manifest), "--output", str(output), *QUICK]) == 2
    reason = f"output.weight holds {value:g}, which cannot be computed with; copy or train it again"
    assert capsys.readouterr().err == f"ds2: {start}: {reason}\n"
    assert not output.exists()
    config = TrainConfig(DataConfig((manifest,), manifest), ModelConfig.of(bundle), start_from=start)
    with pytest.raises(InputError, match=re.escape(f"{start}: {reason}")):
        Trainer(config, output)


def test_letters_of_another_language_make_a_new_alphabet(
    spoken_digits: Callable[[int], Path], tiny_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The search is lost, which is said before training; the tokens stay, the new ones follow."""
    manifest, output = spoken_digits(10), tmp_path / "run"
    bundle = replace(Bundle.load(tiny_bundle), vocabulary=["abc"])
    bundle.save(tiny_bundle)
    with caplog.at_level("INFO"):
        config = fine_tuning(str(tiny_bundle), manifest, output)
    assert re.search(
        r"lacks '\w' \(\S+manifest.jsonl:1\), .*will have no language model and no vocabulary", caplog.text
    )
    assert "fine-tuned.safetensors, without language model and vocabulary" in caplog.text
    assert config.start.add_letters
    assert config.start.freeze_epochs < config.epochs == MOST_EPOCHS
    assert config.model.hidden == bundle.config["hidden"]
    tuned = Bundle.load(Trainer(quickly(config), output).run())
    assert tuned.tokens[:5] == bundle.tokens
    assert with_search_of(bundle, tuned, manifest).vocabulary is None


def with_texts(manifest: Path, texts: Mapping[int, str]) -> None:
    """Other texts for some of the lines of a manifest, counted from 0."""
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    for number, text in texts.items():
        rows[number]["text"] = text
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


RIGHT = "one two three four five six seven eight nine zero"  # many known letters


def quickly(config: TrainConfig) -> TrainConfig:
    """One epoch of a fine-tuning, without other processes."""
    return replace(config, epochs=1, observe=0, data=replace(config.data, workers=0))


@pytest.mark.parametrize("rare", [2, 9])
def test_a_rare_new_letter_is_added_and_the_search_stays(
    spoken_digits: Callable[[int], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, rare: int
) -> None:
    """Wherever it falls, into the training or the held-out part, like the apostrophe, which the model has."""
    manifest, output = spoken_digits(12), tmp_path / "run"
    with_texts(manifest, {1: RIGHT, 3: RIGHT, 5: "it's", 8: "it's", rare: "zürich"})
    with caplog.at_level("INFO"):
        config = fine_tuning("digits-streaming", manifest, output)
    assert f"added to the model's alphabet: 'ü' ({manifest}:{rare + 1});" in caplog.text
    assert "fine-tuned.safetensors, with the whole search" in caplog.text
    Trainer(quickly(config), output).run()
    before, after = Bundle.load("digits-streaming"), Bundle.load(save_fine_tuned("digits-streaming", manifest, output))
    assert after.tokens == [*before.tokens, "ü"]
    assert after.confidence == before.confidence
    assert after.vocabulary == sorted({*(before.vocabulary or []), *RIGHT.split(), "it's", "zürich"})
    assert after.weights["output.weight"].shape == (30, 160)
    torch.testing.assert_close(
        after.weights["output.weight"][:29], before.weights["output.weight"].float(), atol=0.01, rtol=0
    )


def test_words_with_a_new_letter_are_not_found_by_their_sound(
    spoken_digits: Callable[[int], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A model that is searched by phones says so before training, trains as ever, and keeps its pronunciations."""
    manifest = spoken_digits(12)
    known = fine_tuning("english", manifest, tmp_path / "known").start
    with_texts(manifest, {1: RIGHT, 3: RIGHT, 5: "it's", 7: "zürich"})
    config = fine_tuning("english", manifest, tmp_path / "run")
    assert "it finds no words with new letters, whose sound it does not know" in caplog.text
    assert config.start == replace(known, add_letters=True)
    start = Bundle.load("english")
    tuned = replace(start, tokens=[*start.tokens, "ü"], language_model=None, decoder=None)
    kept = with_search_of(start, tuned, manifest)
    assert kept.tokens == tuned.tokens
    assert kept.decoder == start.decoder
    assert bundled_pronunciations(kept) is not None


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


def test_a_sentence_of_the_dev_set_is_not_trained_on(
    spoken_digits: Callable[[int], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = spoken_digits(40)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for number, line in enumerate(lines):
        line["text"] = f"{line['text']} {['zero', 'one', 'two'][number % 3]} {'nine ' * (number % 2)}"
    several = manifest.with_name("several.jsonl")
    several.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fine_tuning("digits", several, tmp_path / "several")
    assert not any("trained on" in message for message in caplog.messages)
    trained, kept = (
        {json.loads(line)["text"] for line in (tmp_path / "several" / f"{name}.jsonl").read_text().splitlines()}
        for name in ("train", "dev")
    )
    assert kept
    assert not trained & kept
    # Eight words cannot be kept apart: it says so.
    fine_tuning("digits", manifest, tmp_path / "run")
    assert (
        "11 of the 11 utterances of the dev set have texts that are trained on, as only 8 of 40 differ" in caplog.text
    )


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
        ([*start, str(fewer)], "began with other recordings or texts; choose another output folder"),
        ([*start, str(corrected)], "began with other recordings or texts; choose another output folder"),
        (["train", "--fine-tune", "digits", str(manifest)], "with other settings: "),
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


def test_a_search_that_cannot_be_is_refused_before_training(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    replace(Bundle.load("digits"), decoder={"nbest": 2**31}).save(tmp_path / "odd.safetensors")
    with pytest.raises(InputError, match=r"odd\.safetensors: its decoder: .*nbest"):
        fine_tuning(str(tmp_path / "odd.safetensors"), spoken_digits(4), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_without_spaces_learns_texts_with_them(
    spoken_digits: Callable[[int], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Converted texts have spaces beside Latin letters, which may be new: neither makes another language of them."""
    manifest, output = spoken_digits(6), tmp_path / "run"
    with_texts(manifest, dict.fromkeys(range(6), "设 定 二 十 九 度 三") | {2: "I T 中国人的店"})
    fine_tuning("mandarin", manifest, output)
    assert "another language" not in caplog.text
    texts = [json.loads(line)["text"] for line in (output / "train.jsonl").read_text().splitlines()]
    assert {"it中国人的店", "设定二十九度三"}.issuperset(texts)
