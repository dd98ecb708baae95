"""What is recorded of the network after every epoch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TINY

from ds2.train.config import DataConfig, TrainConfig
from ds2.train.network_activity import PERCENTILES, observe, percentiles
from ds2.train.trainer import Trainer


def test_observing_changes_nothing_and_records_every_layer(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
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
    assert set(found.norms) == set(found.activations)
    weights = trainer.model.output.weight
    assert found.norms["output"][0] == pytest.approx(weights.norm().item())
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


def test_sparsity_is_the_share_of_zeros_without_padding(spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """A convolution that gives at most 0 everywhere is clipped to zeros."""
    manifest = spoken_digits(4)
    config = TrainConfig(DataConfig((manifest,), manifest, workers=0), TINY, epochs=1, observe=3)
    trainer = Trainer(config, tmp_path / "run")
    found = observe(trainer.model, trainer.data.tokenizer, trainer.data.observed(), 1)
    assert 0.1 < found.sparsity["convolutions.0"] < 0.9
    assert found.sparsity["output"] == 0.0
    with torch.no_grad():
        trainer.model.get_parameter("convolutions.1.norm.beta").fill_(-1000.0)
    found = observe(trainer.model, trainer.data.tokenizer, trainer.data.observed(), 1)
    assert found.sparsity["convolutions.1"] == 1.0


def test_percentiles_by_hand() -> None:
    assert percentiles(torch.arange(101.0)) == pytest.approx(PERCENTILES)
