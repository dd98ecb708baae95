"""Configuration files."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from ds2.audio.augment import AugmentConfig
from ds2.decoder.config import BeamConfig
from ds2.model.config import ModelConfig
from ds2.recognition.live_config import LiveConfig
from ds2.serve.config import Limits, ServeConfig
from ds2.serve.dispatch import DispatchConfig
from ds2.train.config import OptimizerConfig, TrainConfig
from ds2.utils.config import from_dict, load_config, to_dict
from ds2.utils.errors import InputError
from ds2.utils.former_keys import FORMER_KEYS, REPLACED_KEYS


@dataclass(frozen=True)
class Layer:
    size: int = 1
    kernel: tuple[int, int] = (3, 3)


@dataclass(frozen=True)
class Example:
    name: Literal["one", "two"] = "one"
    rate: float = 0.5
    path: Path | None = None
    layers: tuple[Layer, ...] = ()
    inner: Layer = field(default_factory=Layer)
    most_seconds: int = 9

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError(f"rate {self.rate} must not be negative")


def load(folder: Path, text: str, *overrides: str) -> Example:
    (folder / "c.toml").write_text(text)
    return load_config(Example, folder / "c.toml", overrides)


def test_nested_values_in_their_types(tmp_path: Path) -> None:
    text = 'name = "two"\nrate = 1\npath = "x/y"\nlayers = [{size = 2, kernel = [1, 5]}]\n[inner]\nsize = 7\n'
    assert load(tmp_path, text) == Example("two", 1.0, tmp_path / "x/y", (Layer(2, (1, 5)),), Layer(7))
    assert isinstance(load(tmp_path, text).rate, float)


def test_overrides(tmp_path: Path) -> None:
    assert load(tmp_path, "", "inner.size=9", "name=two", "rate=2.5") == Example("two", 2.5, inner=Layer(9))
    assert load(tmp_path, "", "layers=[{size=3}]").layers == (Layer(3),)
    assert load(tmp_path, "path = 'a'", "path='/b'").path == Path("/b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nmae = 'one'", "unknown key nmae; did you mean name"),
        ("ms = 3", r"unknown key ms; did you mean most_seconds\?"),
        ("9" * 5000 + " = 1", "unknown key '9{99}[.]{3}; choose from inner, layers, most_seconds, name, path, rate"),
        (r'"a\nb" = 1', r"unknown key 'a\\nb'; choose from"),
        ("size = 1", r"unknown key size; did you mean inner\.size\?"),
        ("[inner]\nsise = 1", r"unknown key inner\.sise; did you mean size"),
        ("layers = [{sizes = 1}]", r"unknown key layers\[0\]\.sizes"),
        ("rate = 'fast'", "rate = 'fast' must be of type float"),
        ("[inner]\nsize = 1.5", r"inner\.size = 1\.5 must be of type int"),
        ("[inner]\nsize = true", r"inner\.size = True must be of type int"),
        ("name = 'three'", "must be one of 'one', 'two'"),
        ("layers = 3", "layers = 3 must be a list"),
        ("inner = 3", "inner = 3 must be a section"),
        ("[inner]\nkernel = [1]", "must hold 2 values"),
        ("rate = -1.0", "rate -1.0 must not be negative"),
        ("rate = nan", "rate = nan must be a finite number"),
        ("rate = inf", "rate = inf must be a finite number"),
        ("rate = ", "not valid TOML"),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, text)
    assert str(tmp_path / "c.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("override", ["rate", "=1", "rate.fast=1"])
def test_impossible_overrides(tmp_path: Path, override: str) -> None:
    with pytest.raises(InputError, match="set: "):
        load(tmp_path, "rate = 1.0", override)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_config(Example, tmp_path / "gone.toml")


def test_byte_order_mark(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeffrate = 0.25") == Example(rate=0.25)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text("[data]\ntrain = []\n")
    with pytest.raises(InputError, match=r"train\.toml: data\.dev is missing"):
        load_config(TrainConfig, tmp_path / "train.toml")


def test_a_whole_configuration_survives_a_round_trip() -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "digits" / "train.toml"
    config = load_config(TrainConfig, recipe)
    assert from_dict(TrainConfig, to_dict(config), "round trip") == config


def test_a_preset_and_what_differs_from_it(tmp_path: Path) -> None:
    toml = tmp_path / "train.toml"
    toml.write_text('[data]\ntrain = ["a.jsonl"]\ndev = "b.jsonl"\n[model]\npreset = "ds2-tiny"\nhidden = 40\n')
    model = load_config(TrainConfig, toml).model
    assert model == dataclasses.replace(ModelConfig.preset("ds2-tiny"), hidden=40)
    with pytest.raises(InputError, match=r"train.toml: model.preset = 'huge' must be one of ds1, ds2-deploy"):
        load_config(TrainConfig, toml, ["model.preset=huge"])


def test_a_former_key_is_accepted_with_a_warning_that_names_the_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "old.toml"
    path.write_text("noise_share = 0.2")
    assert load_config(AugmentConfig, path) == AugmentConfig(noise_probability=0.2)
    assert caplog.messages == [f"{path}: noise_share is now called noise_probability; rename it"]


def test_a_former_key_in_a_bundle_is_accepted_silently(caplog: pytest.LogCaptureFixture) -> None:
    assert from_dict(BeamConfig, {"best": 2}, "a.safetensors") == BeamConfig(nbest=2)
    assert not caplog.messages


def test_a_key_under_both_names_is_refused() -> None:
    with pytest.raises(InputError, match="noise_share is the former name of noise_probability; remove it"):
        from_dict(AugmentConfig, {"noise_share": 0.2, "noise_probability": 0.3}, "a.toml")


@pytest.mark.parametrize(
    "config", [AugmentConfig, BeamConfig, LiveConfig, Limits, ServeConfig, DispatchConfig, OptimizerConfig, TrainConfig]
)
def test_former_keys_lead_to_keys_of_today(config: type) -> None:
    names = {field.name for field in dataclasses.fields(config)}
    former = FORMER_KEYS.get(config.__name__, {}) | REPLACED_KEYS.get(config.__name__, {})
    assert former
    assert set(former.values()) <= names
    assert not names & set(former)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate = " + "[" * 500 + "]" * 500, r"c\.toml: (not valid TOML|rate = )"),
        ("rate = " + "[" * 10_000, "not valid TOML"),
        ("[" + "a." * 100_000 + "a]", "a line may have 20,000 characters"),
        ("rate = 1" + "0" * 5000, "not valid TOML"),
        ("rate = 0x1" + "0" * 5000, "rate = a int that is too large to show must be of type float"),
        ("name = '" + "x" * 15_000 + "'", "must be one of 'one', 'two'"),
    ],
)
def test_what_no_configuration_holds_is_one_short_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 400
    with pytest.raises(InputError):
        load(tmp_path, "", text.replace(" = ", "=", 1))


def test_a_replaced_key_is_ignored_with_a_warning_that_names_the_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toml = tmp_path / "old.toml"
    toml.write_text('checkpoint_every = 200\n[data]\ntrain = ["a.jsonl"]\ndev = "b.jsonl"\n')
    assert load_config(TrainConfig, toml).checkpoint_minutes == 5.0
    assert caplog.messages == [f"{toml}: checkpoint_every is ignored; checkpoint_minutes took its place"]
    assert load_config(TrainConfig, toml, ["checkpoint_minutes=2"]).checkpoint_minutes == 2.0
