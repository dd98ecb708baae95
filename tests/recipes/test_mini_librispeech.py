"""The rows of the learner's bench."""

import runpy
from pathlib import Path

import pytest
from helpers.scripts import run_script

from ds2.train.config import TrainConfig
from ds2.utils.config import load_config, to_dict

RECIPE = Path(__file__).parents[2] / "recipes" / "mini_librispeech"


def test_each_row_is_a_configuration_of_its_own() -> None:
    rows = runpy.run_path(str(RECIPE / "bench.py"))["ROWS"]
    configs = [to_dict(load_config(TrainConfig, RECIPE / "base.toml", settings)) for settings in rows.values()]
    assert all(first != second for place, first in enumerate(configs) for second in configs[:place])
    assert [line.split()[0] for line in run_script(RECIPE / "bench.py", "--list").splitlines()] == list(rows)


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_script(RECIPE / "bench.py", "basis")
    assert "no such rows: basis; --list names them" in capsys.readouterr().err
