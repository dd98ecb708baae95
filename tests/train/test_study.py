"""A study's TOML file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.studies import SPACE, write_study

from ds2.train.study import read_study, settings
from ds2.utils.errors import InputError


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[space]\n", "must not be empty"),
        ('method = "best"\n' + SPACE, "method = 'best' must be one of 'tpe', 'random', 'grid'"),
        ("trials = 0\n" + SPACE, "trials = 0 must be at least 1"),
        ('trials = "x"\n' + SPACE, "trials = 'x' must be of type int"),
        ('devices = "cpu"\n' + SPACE, "devices = 'cpu' must be a list"),
        ("devices = []\n" + SPACE, "devices and"),
        ("space = 3\n", "space = 3 must be a section of keys"),
        ("", "space is missing"),
        ("trails = 3\n" + SPACE, "unknown key trails"),
        ("[space]\nepochs = {low = 1}\n", r"space\.epochs"),
        ("[space]\nepochs = 3\n", r"space\.epochs = 3"),
        ('[space]\nepochs = {choices = "12"}\n', r"space\.epochs"),
        ("[space]\nepochs = {low = 3, high = 1}\n", r"space\.epochs: low = 3 is above high = 1"),
        ('method = "grid"\n[space]\nepochs = {low = 1, high = 2}\n', r"space\.epochs: a grid needs"),
        (
            'method = "grid"\n[space]\n' + "".join(f'"a{key}" = {{choices = [1, 2, 3, 4]}}\n' for key in range(40)),
            r"a grid of 1,208,925,819,614,629,174,706,176 cells; it may have 10,000",
        ),
        ('[space]\n"optimizer.momentum" = {low = 0.5, high = 1.5}\n', "momentum = 1.5"),
        ("[space]\nepoch = {choices = [1]}\n", "did you mean epochs"),
        ('[space]\n"model.hidden" = {choices = ["many"]}\n', "model.hidden = 'many'"),
        ("method = \n", "TOML"),
    ],
)
def test_bad_studies_are_refused_in_one_line(
    spoken_digits: Callable[[int], Path], tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as refusal:
        read_study(write_study(tmp_path, spoken_digits(2), text))
    assert "\n" not in str(refusal.value)


def test_a_study_needs_a_configuration_file(tmp_path: Path) -> None:
    for text, complaint in ((f"config = 5\n{SPACE}", "config = 5 must be of type Path"), (SPACE, "config is missing")):
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(InputError, match=rf"study\.toml: {complaint}"):
            read_study(tmp_path / "study.toml")


def test_values_are_passed_as_toml() -> None:
    shapes = json.dumps([{"channels": 4, "kernel": [3, 3], "stride": [2, 2]}])
    texts = settings({"sortagrad": True, "optimizer.learning_rate": 1e-5, "optimizer.name": "sgd", "x": shapes})
    assert texts[:3] == ["sortagrad=true", "optimizer.learning_rate=1e-05", "optimizer.name=sgd"]
