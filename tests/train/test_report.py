"""The report of a run: opened in a real browser, and without its dev set."""

import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY

from ds2.data.augment import AugmentConfig
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.report import write_run_report
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


@pytest.fixture
def run(spoken_digits: Callable[[int], Path], tmp_path: Path) -> Path:
    manifest = spoken_digits(6)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, AugmentConfig(), epochs=2, batch_size=3)
    Trainer(dataclasses.replace(config, optimizer=OptimizerConfig("adamw", 1e-2)), tmp_path / "run").run()
    return tmp_path / "run"


def test_the_report_opens_in_a_browser_without_errors(run: Path) -> None:
    """All sections are there, and the slider shows the last epoch."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    write_run_report(run, run / "report.html")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    page = subprocess.run(
        [browser, *options, (run / "report.html").as_uri()], capture_output=True, text=True, timeout=120
    )
    assert page.returncode == 0
    assert "CONSOLE" not in page.stderr
    for section in ("curves", "alignments", "errors", "layers", "data", "config", "environment"):
        assert f'<section id="{section}">' in page.stdout
    assert page.stdout.count('class="stage shown"') == 1
    assert "<output>epoch 2</output>" in page.stdout


def test_the_report_needs_no_other_file_and_says_what_is_missing(run: Path) -> None:
    dev = Path(load_checkpoint(run / "checkpoint.pt")["fingerprint"]["data"]["dev"])
    dev.unlink()
    write_run_report(run, run / "report.html")
    text = (run / "report.html").read_text()
    assert "manifest.jsonl: cannot read the manifest" in text
    assert "{{" not in text.split("<script>")[0]
    assert 'src="http' not in text
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        write_run_report(run / "observed", run / "report.html")
