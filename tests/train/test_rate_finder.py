"""The learning-rate range test."""

import dataclasses
import json
from pathlib import Path

import pytest
from conftest import TINY
from helpers.readings import read_digits
from helpers.training import Manifests, plain_config

from ds2.train.config import OptimizerConfig
from ds2.train.plots import draw_rates
from ds2.train.rate_finder import find_rate
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


def test_the_rate_test_stops_where_the_loss_runs_away(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Without batch normalisation it does, soon; the suggestion, well below, trains."""
    model = dataclasses.replace(TINY, batch_norm=False)
    config = plain_config(spoken_digits(8), model=model, optimizer=OptimizerConfig("sgd", 1.0, 0.9))
    test = find_rate(Trainer(config, tmp_path / "run"), 60)
    assert test.rates == sorted(test.rates)
    assert len(test.rates) < 60
    assert test.losses[-1] > 2 * min(test.losses) or test.losses[-1] != test.losses[-1]
    draw_rates(tmp_path / "rates.png", test.rates, test.losses, test.suggestion)
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")
    optimizer = OptimizerConfig("sgd", test.suggestion, 0.9)
    trainer = Trainer(dataclasses.replace(config, optimizer=optimizer, epochs=10), tmp_path / "after")
    trainer.run()
    assert trainer.state.history[-1]["loss"] < 0.9 * trainer.state.history[0]["loss"]


def test_the_rate_test_skips_what_cannot_be_read(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Three of four files are gone once the features are measured: of 80 minibatches 20 have a loss."""
    manifest = spoken_digits(4)
    trainer = Trainer(plain_config(manifest, batch_size=1), tmp_path / "run")
    for number in range(3):
        (manifest.parent / f"{number}.wav").unlink()
    test = find_rate(trainer, 80)
    assert 5 < len(test.rates) <= 20
    assert min(test.losses) > 0
    (manifest.parent / "3.wav").unlink()
    with pytest.raises(InputError, match="none of the utterances tried can be read"):
        find_rate(trainer, 20)


def lengths_alternate(spoken_digits: Manifests) -> Path:
    """Four single digits, and two strings of twelve: losses of utterances differ by a factor of ten and more."""
    manifest = spoken_digits(4)
    rows = manifest.read_text().splitlines()
    for number in range(2):
        path = manifest.parent / f"long{number}.wav"
        reading = read_digits(path, number, lines=1, length=12)
        row = {"audio_filepath": path.name, "duration": reading.spans[-1][1] + 0.5, "text": reading.text.strip()}
        rows.append(json.dumps(row))
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


def test_short_and_long_minibatches_do_not_look_like_a_runaway(spoken_digits: Manifests, tmp_path: Path) -> None:
    """A minibatch of one utterance is now short, now long; whole utterances' losses would end the test at once."""
    config = plain_config(lengths_alternate(spoken_digits), batch_size=1)
    for seed in (1, 2, 3):
        test = find_rate(Trainer(dataclasses.replace(config, seed=seed), tmp_path / f"run{seed}"), 80)
        assert test.rates[-1] > 1e-3
        assert 1e-5 < test.suggestion <= 0.1


def test_a_loss_that_does_not_fall_is_an_error_that_says_what_to_do(spoken_digits: Manifests, tmp_path: Path) -> None:
    """The gradient is clipped to nothing: no rate changes a weight."""
    still = OptimizerConfig("sgd", clip_norm=1e-30)
    trainer = Trainer(plain_config(spoken_digits(4), optimizer=still), tmp_path / "run")
    with pytest.raises(InputError, match=r"the loss fell at none of 20 rates.*test more than 20 minibatches"):
        find_rate(trainer, 20)
