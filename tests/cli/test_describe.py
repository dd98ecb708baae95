"""ds2 info."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from helpers.commands import Outcome, assert_refused

from ds2.bundle import Bundle, model_card, read_record
from ds2.cli.describe import FIGURES
from ds2.model_record import LanguageModelPart
from ds2.utils.model_names import MODELS


def test_info_of_bundle_manifest_and_anything_else(
    run: Callable[..., Outcome], tiny_bundle: Path, spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    _, bundle, _ = run("info", tiny_bundle)
    assert "tokens: 5: '<blank>' ' ' 'a' 'b' 'c'" in bundle
    assert "config.hidden: 24" in bundle
    assert "training.wer (greedy, while training): 1.0" in bundle
    _, manifest, _ = run("info", spoken_digits(5))
    assert "5 utterances" in manifest
    assert "1 speaker" in manifest
    english = run("info", "english")[1]
    assert "decoder.lm_weight: " in english
    assert "config.cell" not in english  # it has no recurrent layers
    mandarin = run("info", "mandarin")[1].splitlines()
    assert any(line.startswith("knows 3,769 characters; ") for line in mandarin)
    assert any(line.startswith("tokens: 3802: '<blank>' ") and line.endswith(" ...") for line in mandarin)
    for path in MODELS.glob("*.safetensors"):
        assert run("info", path.stem)[1].splitlines()[1].startswith(f"knows {read_record(path).knows}")
    for name, figures in FIGURES.items():
        assert figures in run("info", name)[1]
        assert all(f"{figure} %" in model_card(name) for figure in re.findall(r"(\S+) %", figures))
    assert_refused(run("info", tmp_path / "a.wav"), "neither a model")
    (tmp_path / "a.lm").touch()
    assert_refused(run("info", tmp_path / "a.lm"), "is a language model; ds2 lm info describes it")
    assert_refused(run("info"), "name a bundle")


def test_error_rates_of_averaged_models_are_greedy_too(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    bundle = Bundle.load(tiny_bundle)
    replace(bundle, training={"average_of": [{"name": "a", "wer": 0.25}, "b"]}).save(tmp_path / "average.safetensors")
    _, shown, _ = run("info", tmp_path / "average.safetensors")
    assert "training.average_of: [{'name': 'a', 'wer (greedy, while training)': 0.25}, 'b']" in shown


def test_info_of_a_named_model_is_a_table_of_its_layers(run: Callable[..., Outcome]) -> None:
    code, table, _ = run("info", "--model", "ds2-deploy")
    assert code == 0
    assert "5 forward-only gru layers of 2560" in table
    assert "waits for 550 ms of sound" in table
    assert [line.split()[0] for line in table.splitlines()[3:7]] == [
        "frontend",
        "convolutions.0",
        "convolutions.1",
        "recurrent.0",
    ]
    assert "194,073,853" in table.splitlines()[-1]
    assert_refused(run("info", "--model", "ds2-huge"), "no such architecture")
    assert_refused(run("info", "--model", "digits"), "name a trained model without --model")


def test_a_language_model_that_is_not_there_is_not_spoken_of(run: Callable[..., Outcome], tiny_bundle: Path) -> None:
    bundle = Bundle.load(tiny_bundle)
    replace(bundle, language_model=LanguageModelPart(3, ["a"])).save(tiny_bundle)
    code, text, _ = run("info", tiny_bundle)
    assert (code, "language model: " in text) == (0, False)


def test_info_of_an_exported_model(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    assert run("export", tiny_bundle, "--output", tmp_path)[0] == 0
    code, output, _ = run("info", tmp_path / "model.onnx")
    assert code == 0
    assert output.splitlines()[0].endswith(f"{(tmp_path / 'model.onnx').stat().st_size / 1e6:.1f} MB")
    assert "language model: none" in output
    (tmp_path / "other.onnx").write_bytes(b"other")
    assert_refused(run("info", tmp_path / "other.onnx"), "onnxruntime cannot load it")


def test_the_card_of_a_packaged_model_comes_before_its_technical_lines(run: Callable[..., Outcome]) -> None:
    code, output, _ = run("info", "digits")
    assert code == 0
    assert 0 < output.index(model_card("digits").splitlines()[0]) < output.index("tokens: ")


def test_info_of_a_recipe_is_the_same_table_of_its_network(run: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(
        '[data]\ntrain = ["a.jsonl"]\ndev = "b.jsonl"\n[model]\npreset = "ds2-deploy"\n', "utf-8"
    )
    code, table, _ = run("info", tmp_path / "train.toml")
    assert code == 0
    assert table.splitlines()[1:] == run("info", "--model", "ds2-deploy")[1].splitlines()[1:]
    (tmp_path / "train.toml").write_text("[model]\nhiden = 3\n")
    assert_refused(run("info", tmp_path / "train.toml"), "hiden")


def test_info_of_a_model_that_was_trained_on_names_the_card_of_its_origin(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    bundle = Bundle.load("digits")
    for origin in ("digits", "other"):
        replace(bundle, training={**bundle.training, "origin": {"model": origin}}).save(
            tmp_path / f"{origin}.safetensors"
        )
    assert "\ntrained on from digits: ds2 info digits shows its card" in run("info", tmp_path / "digits.safetensors")[1]
    assert "trained on from" not in run("info", tmp_path / "other.safetensors")[1]
    for other in ("digits", tmp_path / "digits.safetensors"):
        assert run("average", other, tmp_path / "other.safetensors", "-o", tmp_path / "average.safetensors")[0] == 0
        assert "\ntrained on from digits" in run("info", tmp_path / "average.safetensors")[1]
    replace(bundle, training={"origin": {"model": ["digits"]}}).save(tmp_path / "odd.safetensors")
    assert run("info", tmp_path / "odd.safetensors")[0] == 0
