"""The report of a run: opened in a real browser, and without its dev set."""

import base64
import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY
from helpers.browser import look, needs_browser

from ds2.audio.augment import AugmentConfig
from ds2.cli.main import main
from ds2.train.checkpoint import load_checkpoint, save_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.report import write_run_report
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


@pytest.fixture
def run(request: pytest.FixtureRequest, spoken_digits: Callable[[int], Path], tmp_path: Path) -> Path:
    """A training of one epoch, or of as many as the parameter says."""
    manifest = spoken_digits(3)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, AugmentConfig(), batch_size=3)
    config = dataclasses.replace(config, epochs=getattr(request, "param", 1), optimizer=OptimizerConfig("adamw", 1e-2))
    Trainer(config, tmp_path / "run").run()
    return tmp_path / "run"


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("run", [2], indirect=True, ids=["two epochs"])
def test_the_report_opens_in_a_browser_without_errors(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All sections are there, and the slider shows the last epoch; a name with a suffix is that of the page."""
    assert main(["report", str(run), "--output", str(run / "mine.html")]) == 0
    assert capsys.readouterr().out == f"{run / 'mine.html'}\n"
    shown, complaints = look(run / "mine.html")
    assert complaints == []
    for section in ("curves", "alignments", "errors", "network", "layers", "data", "config", "environment"):
        assert f'<section id="{section}">' in shown
    assert shown.count('class="stage shown"') == 1
    assert "<output>epoch 2</output>" in shown
    assert shown.count('<div class="layer">') == 5  # front end, two convolutions, a recurrent layer, the output
    assert shown.count("of the activations are 0") == 4


def test_the_report_needs_no_other_file_and_says_what_is_missing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name without a suffix is that of a folder."""
    dev = Path(load_checkpoint(run / "checkpoint.pt")["fingerprint"]["data"]["dev"])
    dev.unlink()
    assert main(["report", str(run), "--output", str(run / "shown")]) == 0
    assert capsys.readouterr().out == f"{run / 'shown' / 'report.html'}\n"
    text = (run / "shown" / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "manifest.jsonl: cannot read the manifest" in text
    assert "{{" not in text.split("<script>")[0]
    assert 'src="http' not in text
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        write_run_report(run / "observed", run / "report.html")


QUOTED = '"><u>'
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{SECTIONS}}'


def test_what_a_run_holds_cannot_become_part_of_the_page(run: Path) -> None:
    """Every value is escaped; a browser would not run a script that came through, either."""
    for path in (run / "observed").glob("epoch_*.pt"):
        look = load_checkpoint(path)
        save_checkpoint(path, look | {"epoch": QUOTED, "texts": [(HOSTILE, HOSTILE) for _ in look["texts"]]})
    run = run.rename(run.with_name("<script>alert(3)<"))
    write_run_report(run, run / "report.html")
    text = (run / "report.html").read_text()
    assert "alert(1)" in text
    assert "alert(3)" in text
    assert "<img src=x" not in text
    assert "<u>" not in text
    assert text.count("<script>") == text.count('<section id="data">') == 1
    script = text.partition("<script>")[2].partition("</script>")[0]
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{allowed}';" in text


@pytest.mark.long
def test_a_damaged_observation_is_refused_in_one_line(run: Path) -> None:
    path = sorted((run / "observed").glob("epoch_*.pt"))[-1]
    look = load_checkpoint(path)
    damages = {"epoch": None, "texts": [(1, 2)], "posteriors": [], "weights": {"$x^^$": []}, "maps": {}, "norms": 1}
    for key, value in damages.items():
        save_checkpoint(path, look | {key: value})
        with pytest.raises(InputError, match="not a run of ds2 train, or damaged"):
            write_run_report(run, run / "report.html")
    assert not (run / "report.html").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nosuch: no such folder; name the output folder of a training"):
        write_run_report(tmp_path / "nosuch", tmp_path / "report.html")
