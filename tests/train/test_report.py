"""What a person sees: observations, the report in a real browser, the time line and the table of strategies."""

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TINY

from ds2.data.augment import AugmentConfig
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import DataConfig, OptimizerConfig, TrainConfig
from ds2.train.distributed.bench import Run, read_run, write_results
from ds2.train.observe import FIGURES, PERCENTILES, observe, percentiles, read_metrics, write_metrics
from ds2.train.report import write_report
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


@pytest.fixture
def run(spoken_digits: Callable[[int], Path], tmp_path: Path) -> Path:
    manifest = spoken_digits(6)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, AugmentConfig(), epochs=2, batch_size=3)
    Trainer(dataclasses.replace(config, optimizer=OptimizerConfig("adamw", 1e-2)), tmp_path / "run").run()
    return tmp_path / "run"


def test_observing_leaves_no_trace_and_sees_what_is_there(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    manifest = spoken_digits(6)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, observe=3)
    trainer = Trainer(config, tmp_path / "run")
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    random = torch.get_rng_state()
    batch = trainer.data.observed()
    found = observe(trainer.model, trainer.data.tokenizer, batch, 1)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer.model.state_dict().items())
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    assert len(found.texts) == len(found.posteriors) == 3
    assert found.texts[0][0] == batch.utterances[0].text
    torch.testing.assert_close(
        found.posteriors[0].float().sum(1), torch.ones(len(found.posteriors[0])), atol=1e-2, rtol=0
    )
    assert found.filters.shape == (4, 11, 5)
    assert set(found.activations) == {"convolutions.0", "convolutions.1", "recurrent.0", "output"}
    assert len(found.gradients_over_time["output"]) == len(found.posteriors[0])
    assert all(values == sorted(values) for values in found.weights.values())


def test_gradients_over_time_are_those_of_the_loss(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """At the output: norms of (posterior - occupation), the derivative of CTC, over the number of utterances."""
    from ds2.ctc import ctc_loss

    manifest = spoken_digits(4)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, observe=2)
    trainer = Trainer(config, tmp_path / "run")
    batch = trainer.data.observed()
    found = observe(trainer.model, trainer.data.tokenizer, batch, 1)
    log_probs, lengths = trainer.model(batch.samples, batch.sample_lengths)
    log_probs = log_probs.detach().requires_grad_()
    ctc_loss(log_probs, batch.targets, lengths, batch.target_lengths, reduction="sum").backward()
    expected = log_probs.grad[0, : int(lengths[0])].norm(dim=1) / 2
    torch.testing.assert_close(torch.tensor(found.gradients_over_time["output"]), expected, rtol=1e-4, atol=1e-6)


def test_percentiles_by_hand() -> None:
    assert percentiles(torch.arange(101.0)) == pytest.approx(PERCENTILES)


def test_the_report_opens_in_a_browser_without_errors(run: Path) -> None:
    """Sections are there, the slider has chosen the last epoch, and nothing is fetched from anywhere."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    write_report(run, run / "report.html")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    page = subprocess.run(
        [browser, *options, (run / "report.html").as_uri()], capture_output=True, text=True, timeout=120
    )
    assert page.returncode == 0
    assert "CONSOLE" not in page.stderr
    for section in ("curves", "listening", "errors", "inside", "data", "config", "environment"):
        assert f'<section id="{section}">' in page.stdout
    assert page.stdout.count('class="stage shown"') == 1
    assert "<output>epoch 2</output>" in page.stdout


def test_the_report_needs_nothing_else_and_says_what_is_missing(run: Path) -> None:
    dev = Path(load_checkpoint(run / "checkpoint.pt")["fingerprint"]["data"]["dev"])
    dev.unlink()
    write_report(run, run / "report.html")
    text = (run / "report.html").read_text()
    assert "manifest.jsonl: cannot read the manifest" in text
    assert "{{" not in text.split("<script>")[0]
    assert 'src="http' not in text
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        write_report(run / "observed", run / "report.html")


def test_a_cut_last_line_is_left_out_and_a_broken_one_named(tmp_path: Path) -> None:
    path, epochs = tmp_path / "metrics.jsonl", [dict.fromkeys(FIGURES, number) for number in (1, 2)]
    write_metrics(path, epochs)
    whole = path.read_text()
    path.write_text(whole[:-5])
    assert read_metrics(path) == epochs[:1]
    for garbage in ("{broken", "3", "{}"):
        path.write_text(f"{garbage}\n{whole}")
        with pytest.raises(InputError, match=r"metrics\.jsonl:1: no epoch's figures"):
            write_report(tmp_path, tmp_path / "report.html")
    path.write_text(whole[:5])
    with pytest.raises(InputError, match="no epoch of a training has ended"):
        write_report(tmp_path, tmp_path / "report.html")


def test_a_training_too_short_for_a_time_line_is_told(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    manifest = spoken_digits(3)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, profile=6, observe=0)
    for batch_size in (1, 3):
        run = tmp_path / f"run{batch_size}"
        Trainer(dataclasses.replace(config, batch_size=batch_size), run).run()
        with pytest.raises(InputError, match=f"{run}: no time line.*lower batch_size"):
            read_run(run, "synchronous", 1)


def test_profiled_minibatches_become_a_time_line(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, batch_size=1, profile=3)
    Trainer(config, tmp_path / "run").run()
    spans = json.loads((tmp_path / "run" / "timeline.rank0.json").read_text())
    kinds = [kind for kind, _, _ in spans]
    assert kinds.count("forward") == kinds.count("backward") == kinds.count("update") == 3
    assert all(begin <= end for _, begin, end in spans)


def test_the_table_of_strategies_by_hand(tmp_path: Path) -> None:
    """Two ranks do 1.5 times the work of one: efficiency 75 %; the loss 3 lies half-way through the second epoch."""
    one = [epoch(10.0, 10.0, 4.0), epoch(10.0, 10.0, 2.0)]
    two = [epoch(10.0, 15.0, 5.0), epoch(10.0, 15.0, 3.0)]
    line = [[("forward", 0.0, 3.0), ("waiting", 3.0, 4.0)], [("forward", 0.0, 4.0)]]
    text = write_results(tmp_path, [Run("synchronous", 1, one, line[:1]), Run("mixed", 2, two, line)])
    assert "| synchronous | 1 | 10.0 | 1.00 | 100% | 15.0 | 2.00 | 25.00% | 25% | 0% |" in text
    assert "| mixed | 2 | 15.0 | 1.50 | 75% | 20.0 | 3.00 | 25.00% | 12% | 0% |" in text
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


def epoch(seconds: float, rate: float, loss: float) -> dict:
    return {"seconds": seconds, "utterances_per_second": rate, "dev_loss": loss, "wer": 0.25}
