"""Updates: bad gradients are skipped, the moving average, divergence."""

from pathlib import Path

import pytest
import torch
from helpers.training import Manifests, augmented_config, model_weights, plain_config

from ds2.bundle import Bundle
from ds2.data.dataset import Batch
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import OptimizerConfig
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


def test_a_bad_minibatch_is_skipped_and_saved(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Samples that are no numbers in one of four minibatches: no weight moves, and the minibatch is saved."""
    manifest = spoken_digits(8)
    trainer = Trainer(plain_config(manifest, batch_size=2, epochs=1), tmp_path / "run")
    good, count = trainer._train_minibatch, iter(range(100))

    def poisoned(minibatch: list[Batch]) -> None:
        if next(count) == 1:
            minibatch[0].samples[0, 100] = float("nan")
            before = {name: value.clone() for name, value in trainer.model.named_parameters()}
            good(minibatch)
            assert all(torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
        else:
            good(minibatch)

    trainer._train_minibatch = poisoned  # type: ignore[method-assign]
    trainer.run()
    (kept,) = (tmp_path / "run" / "skipped_updates").iterdir()
    assert kept.name == "epoch1_batch2_rank0.pt"
    microbatch = load_checkpoint(kept)["microbatches"][0]
    assert not microbatch["samples"].isfinite().all()
    assert all(place.startswith(str(manifest)) for place in microbatch["places"])
    assert trainer.state.step == 4


def test_a_spike_of_the_gradient_is_skipped(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = plain_config(spoken_digits(8), optimizer=OptimizerConfig("sgd", 1e-4, gradient_spike=3.0))
    trainer = Trainer(config, tmp_path / "run")
    updater = trainer.strategy.updater
    before = model_weights(trainer)

    def update(gradient: float) -> bool:
        for parameter in trainer.model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        return updater.update(0)

    assert update(1e-3)
    assert not update(1.0)
    assert not torch.equal(model_weights(trainer), before)
    assert update(1e-3)


def test_the_moving_average_is_saved_as_best_and_survives_a_resumption(
    spoken_digits: Manifests, tmp_path: Path
) -> None:
    """The average after n updates, by hand: a <- decay a + (1 - decay) w, from the first weights on."""
    config = plain_config(spoken_digits(8), optimizer=OptimizerConfig("sgd", 1e-3, 0.9, ema_decay=0.7))
    trainer = Trainer(config, tmp_path / "run")
    updater, expected = trainer.strategy.updater, None
    move = updater._update_weights

    def watched(epoch: int) -> None:
        nonlocal expected
        move(epoch)
        now = model_weights(trainer)
        expected = now if expected is None else 0.7 * expected + 0.3 * now

    updater._update_weights = watched  # type: ignore[method-assign]
    trainer.run()
    found = torch.cat([tensor.flatten() for tensor in updater.validated.state_dict().values()])
    torch.testing.assert_close(found, expected)
    best = Bundle.load(tmp_path / "run" / "best.safetensors").weights["output.weight"]
    assert not torch.equal(best, trainer.model.output.weight)
    again = Trainer(config, tmp_path / "run").strategy.updater.validated
    assert torch.equal(torch.cat([tensor.flatten() for tensor in again.state_dict().values()]), found)


def test_divergence_ends_in_one_line(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(augmented_config(spoken_digits(8), epochs=20, batch_size=1), tmp_path / "run")
    with torch.no_grad():
        trainer.model.output.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="diverged"):
        trainer.run()
