"""Model files."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import save_file

from ds2.bundle import Bundle, read_record
from ds2.model_record import LanguageModelPart, PunctuationPart
from ds2.utils.errors import InputError
from ds2.utils.model_names import check_language, is_packaged, locate, packaged_language

METADATA: dict[str, Any] = {"config": {"hidden": 3}, "tokens": ["<blank>", "好", "'"], "training": {"wer": 0.125}}


def saved(folder: Path) -> Path:
    path = folder / "model.safetensors"
    Bundle(weights={"w": torch.arange(6.0).reshape(2, 3).T, "n": torch.tensor(3)}, **METADATA).save(path)
    return path


def test_round_trip(tmp_path: Path) -> None:
    bundle = Bundle.load(saved(tmp_path))
    assert bundle.metadata() == METADATA
    assert torch.equal(bundle.weights["w"], torch.arange(6.0).reshape(2, 3).T)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_words_beyond_the_header_of_safetensors_are_refused(tmp_path: Path) -> None:
    """safetensors ends at 100 MB, some six million words."""
    words = LanguageModelPart(1, ["a" * 101_000_000])
    with pytest.raises(InputError, match=r"cannot hold this .*use fewer words"):
        Bundle(weights={}, config={}, tokens=[], language_model=words).save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["digits", "english"])
def test_a_bundle_that_is_saved_again_is_the_same_file(name: str, tmp_path: Path) -> None:
    """Also one of before, whose keys have another order."""
    Bundle.load(name).save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == locate(name).read_bytes()


def test_what_a_record_says_is_there(tmp_path: Path) -> None:
    """A part without arrays is left out; arrays without a part are damage."""
    bundle = Bundle.load(saved(tmp_path))
    about = replace(bundle, language_model=LanguageModelPart(1, ["a"]), punctuation=PunctuationPart(["a"]))
    about.save(tmp_path / "about.safetensors")
    assert read_record(tmp_path / "about.safetensors").punctuation is not None
    again = Bundle.load(tmp_path / "about.safetensors")
    assert (again.language_model, again.punctuation) == (None, None)
    assert again.metadata() == METADATA
    with pytest.raises(InputError, match="punctuation is missing"):
        bundle.with_arrays({"punctuation": {"x": torch.zeros(1)}})


def test_metadata_alone_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from ds2.bundle import read_record; "
        f"print(read_record({str(saved(tmp_path))!r}).tokens[1], 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["好", "False"]


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_every_cut_is_refused_in_one_line(tmp_path: Path, arrays: Literal["torch", "numpy"]) -> None:
    path = saved(tmp_path)
    whole = path.read_bytes()
    for length in [0, 1, 7, 8, 9, 50, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=str(path)) as caught:
            Bundle.load(path, arrays)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"just some text that is no model at all", b"\xff" * 100, b""])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a ds2 model bundle"):
        read_record(path)


def test_other_safetensors_and_newer_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"w": torch.zeros(1)}, path)
    with pytest.raises(InputError, match="not a ds2 model bundle"):
        read_record(path)
    save_file({"w": torch.zeros(1)}, path, {"ds2": json.dumps({**METADATA, "format": 99})})
    with pytest.raises(InputError, match="update ds2"):
        read_record(path)
    for damaged in ({}, {"config": {}, "tokens": 5}, {"config": 5, "tokens": []}):
        save_file({"w": torch.zeros(1)}, path, {"ds2": json.dumps({"format": 1, **damaged})})
        with pytest.raises(InputError, match="lacks its configuration"):
            read_record(path)


def test_a_folder_does_not_hide_the_model_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = locate("digits")
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate("digits") == packaged
    assert is_packaged("digits")


def test_a_name_may_have_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS2_MODELS", str(tmp_path))
    (tmp_path / "my.v2.safetensors").write_bytes(locate("digits").read_bytes())
    assert locate("my.v2") == tmp_path / "my.v2.safetensors"
    assert locate("my.v3") == Path("my.v3")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        Bundle.load(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("values", ["5", "[]", "null", "[" * 100_000, '{"a": 1' + "0" * 5000 + "}"])
def test_metadata_that_is_not_an_object_is_refused(tmp_path: Path, values: str) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"w": torch.zeros(1)}, path, {"ds2": values})
    with pytest.raises(InputError, match=str(path)):
        Bundle.load(path)


@pytest.mark.parametrize(
    "values",
    [
        {"tokens": ["<blank>", 5]},
        {"tokens": [["<blank>"]]},
        {"decoder": 5},
        {"decoder": [1]},
        {"training": "much"},
        {"language_model": None},
        {"language_model": {"words": 5}},
        {"language_model": {"order": "three"}},
        {"confidence": {"least": "low"}},
        {"confidence": {"least": 10**400}},
        {"punctuation": {"f1": 0.5}},
        {"punctuation": {"f1": {"comma": float("nan")}}},
        {"vocabulary": [5]},
        {"vocabulary": "words"},
        {"vocabulary": [""]},
        {"vocabulary": {"a": 1}},
        {"language_model": {"order": 2}},
        {"punctuation": {"f1": {}}},
        {"punctuation": {"words": [1, 2]}},
    ],
)
def test_values_of_wrong_types_are_refused(tmp_path: Path, values: dict[str, object]) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"w": torch.zeros(3, 3)}, path, {"ds2": json.dumps({"format": 1, **METADATA, **values})})
    with pytest.raises(InputError, match=r"x\.safetensors: (damaged|the bundle lacks)"):
        read_record(path)


@pytest.mark.parametrize(
    "config",
    [
        {"hidden": 10**12},
        {"recurrent_layers": 10**9},
        {"convolutions": [{"channels": -(10**10)}]},
        {"frontend": {"window": 1e6}},
        {"frontend": {"hop": 1e300}},
        {"frontend": {"sample_rate": 2**40}},
        {"hidden": float("nan")},
    ],
)
def test_sizes_beyond_those_of_the_weights_are_refused_before_anything_is_built(
    tmp_path: Path, config: dict[str, object]
) -> None:
    path = tmp_path / "x.safetensors"
    Bundle(weights={"w": torch.zeros(800, 3)}, **{**METADATA, "config": config}).save(path)
    with pytest.raises(InputError, match=r"x\.safetensors: damaged model bundle \(.* does not fit its weights"):
        Bundle.load(path)


def test_a_header_of_wrong_types_is_refused_in_one_short_line(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"ds2": json.dumps({"format": 1, **METADATA})}, "w": "a" * 100_000}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match=r"x\.safetensors: damaged model bundle") as error:
        Bundle.load(tmp_path / "x.safetensors")
    assert len(str(error.value)) < 500


def test_a_model_of_the_package_knows_its_language_alone() -> None:
    for model, code, name, other in (("mandarin", "zh", "Mandarin", "en"), ("english", "en", "English", "zh")):
        assert packaged_language(model) == (code, name)
        for language in (code, f"{code}-XX", name.lower(), ""):
            check_language(language, model)
        with pytest.raises(InputError, match=rf"{model} knows {name} \({code}\) only"):
            check_language(other, model)
    assert packaged_language("mine.safetensors") == ("", "")
    check_language("fr", "mine.safetensors")


def test_the_folder_of_a_training_is_named_with_its_model(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best.safetensors").write_bytes(tiny_bundle.read_bytes())
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "best.safetensors").write_bytes(tiny_bundle.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert locate("english").parent.name == "models"  # such a folder hides no model
    with pytest.raises(InputError, match=r"the folder of a training; name .*run/best\.safetensors"):
        locate(tmp_path / "run")
