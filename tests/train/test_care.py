"""Care in training: precision, memory, guards, averages, early stopping, freezing, transfer, label smoothing."""

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TINY

from ds2.bundle import Bundle
from ds2.data.augment import AugmentConfig
from ds2.data.dataset import Batch
from ds2.data.pronunciation import TOKENS as PHONE_TOKENS
from ds2.errors import InputError
from ds2.model.frontend import FrontendConfig
from ds2.train.checkpoint import load_checkpoint
from ds2.train.config import ComputeConfig, DataConfig, OptimizerConfig, ParallelConfig, StartConfig, TrainConfig
from ds2.train.objective import Objective, to_uniform
from ds2.train.rate_finder import draw_rates, find_rate
from ds2.train.trainer import Trainer

Manifests = Callable[[int], Path]
PLAIN = AugmentConfig((1.0,), noise_share=0.0, gain=(0.0, 0.0), frequency_masks=0, time_masks=0)


def configuration(manifest: Path, **changes: object) -> TrainConfig:
    config = TrainConfig(
        DataConfig((manifest,), manifest, workers=0),
        model=TINY,
        augment=PLAIN,
        optimizer=OptimizerConfig("sgd", 1e-3, 0.9),
        epochs=2,
        batch_size=4,
        observe=0,
    )
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in trainer.model.state_dict().values()])


def after(config: TrainConfig, folder: Path) -> torch.Tensor:
    trainer = Trainer(config, folder)
    trainer.run()
    return weights(trainer)


def batch_of(trainer: Trainer) -> Batch:
    trainer.corpus.sampler.begin(1)
    return next(iter(trainer.corpus.training()))


def test_pieces_add_up_to_the_minibatch(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Without batch normalisation, which takes statistics of each piece, three pieces give the gradient of one."""
    config = configuration(spoken_digits(9), model=dataclasses.replace(TINY, batch_norm=False))
    whole = after(config, tmp_path / "whole")
    pieces = after(dataclasses.replace(config, accumulate=3), tmp_path / "pieces")
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-6)


def test_recomputed_activations_change_nothing(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Dropout and running statistics included."""
    config = configuration(spoken_digits(8), model=dataclasses.replace(TINY, dropout=0.2))
    kept = after(config, tmp_path / "kept")
    again = after(dataclasses.replace(config, compute=ComputeConfig(recompute=True)), tmp_path / "again")
    assert torch.equal(kept, again)


def test_recomputed_activations_are_not_kept(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(configuration(spoken_digits(4)), tmp_path / "run")
    batch = batch_of(trainer)

    def kept(recompute: bool) -> int:
        config = configuration(Path("-"), compute=ComputeConfig(recompute=recompute))
        objective = Objective(copy.deepcopy(trainer.model).train(), config)
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            objective(batch, (1, 1, 0))
        return sum(sizes.values())

    assert kept(True) < 0.7 * kept(False)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_learns(spoken_digits: Manifests, tmp_path: Path, precision: str) -> None:
    optimizer = OptimizerConfig("adamw", 5e-3)
    compute = ComputeConfig(precision=precision)  # type: ignore[arg-type]
    trainer = Trainer(configuration(spoken_digits(8), epochs=8, optimizer=optimizer, compute=compute), tmp_path / "run")
    trainer.run()
    losses = [epoch["loss"] for epoch in trainer.state.history]
    assert losses[-1] < 0.8 * losses[0]
    assert all(tensor.dtype == torch.float32 for tensor in trainer.model.state_dict().values())


def test_a_batch_that_is_no_good_is_kept_and_left_out(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Samples that are no numbers in one of four minibatches: it moves nothing, and it can be looked at."""
    manifest = spoken_digits(8)
    trainer = Trainer(configuration(manifest, batch_size=2, epochs=1), tmp_path / "run")
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
    (kept,) = (tmp_path / "run" / "left_out").iterdir()
    assert kept.name == "epoch1_batch2_rank0.pt"
    piece = load_checkpoint(kept)["pieces"][0]
    assert not piece["samples"].isfinite().all()
    assert all(place.startswith(str(manifest)) for place in piece["places"])
    assert trainer.state.step == 4


def test_a_surge_of_the_gradient_is_left_out(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = configuration(spoken_digits(8), optimizer=OptimizerConfig("sgd", 1e-4, surge=3.0))
    trainer = Trainer(config, tmp_path / "run")
    updater = trainer.strategy.updater
    before = weights(trainer)

    def update(gradient: float) -> bool:
        for parameter in trainer.model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        return updater.update(0)

    assert update(1e-3)
    assert not update(1.0)
    assert not torch.equal(weights(trainer), before)
    assert update(1e-3)


def test_the_moving_average_is_what_is_kept_and_survives_a_resumption(spoken_digits: Manifests, tmp_path: Path) -> None:
    """The average after n updates, by hand: a <- decay a + (1 - decay) w, from the first weights on."""
    config = configuration(spoken_digits(8), optimizer=OptimizerConfig("sgd", 1e-3, 0.9, average_decay=0.7))
    trainer = Trainer(config, tmp_path / "run")
    updater, expected = trainer.strategy.updater, None
    move = updater._move

    def watched(epoch: int) -> None:
        nonlocal expected
        move(epoch)
        now = weights(trainer)
        expected = now if expected is None else 0.7 * expected + 0.3 * now

    updater._move = watched  # type: ignore[method-assign]
    trainer.run()
    found = torch.cat([tensor.flatten() for tensor in updater.judged.state_dict().values()])
    torch.testing.assert_close(found, expected)
    best = Bundle.load(tmp_path / "run" / "best.safetensors").weights["output.weight"]
    assert not torch.equal(best, trainer.model.output.weight)
    again = Trainer(config, tmp_path / "run").strategy.updater.judged
    assert torch.equal(torch.cat([tensor.flatten() for tensor in again.state_dict().values()]), found)


def test_patience_ends_a_run_that_gets_no_better(spoken_digits: Manifests, tmp_path: Path) -> None:
    still = OptimizerConfig("sgd", 1e-12, 0.1)
    model = dataclasses.replace(TINY, batch_norm=False)
    config = configuration(spoken_digits(4), optimizer=still, model=model, epochs=50, patience=3)
    trainer = Trainer(config, tmp_path / "run")
    trainer.run()
    assert trainer.state.epoch - trainer.state.best_epoch == 3
    assert trainer.state.epoch < 50
    Trainer(config, tmp_path / "run").run()  # and it stays ended
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == trainer.state.epoch


def test_frozen_parts_stay_as_they_are_until_they_thaw(spoken_digits: Manifests, tmp_path: Path) -> None:
    start = StartConfig(freeze=("convolutions", "recurrent.0"), freeze_epochs=1)
    config = configuration(spoken_digits(8), start=start)

    def parts(trainer: Trainer) -> tuple[torch.Tensor, torch.Tensor]:
        state = trainer.model.state_dict()
        frozen = [tensor.flatten() for name, tensor in state.items() if name.startswith(("conv", "recurrent.0"))]
        return torch.cat(frozen), state["output.weight"].clone()

    for epochs, equal in ((1, True), (2, False)):
        trainer = Trainer(dataclasses.replace(config, epochs=epochs), tmp_path / f"run{epochs}")
        frozen, output = parts(trainer)
        trainer.run()
        assert torch.equal(parts(trainer)[0], frozen) == equal
        assert not torch.equal(parts(trainer)[1], output)
    with pytest.raises(InputError, match=r"no part 'recurent'.*recurrent"):
        Trainer(configuration(spoken_digits(4), start=StartConfig(freeze=("recurent",))), tmp_path / "other")


def test_a_new_alphabet_keeps_the_rows_that_both_have(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    best = Trainer(configuration(manifest, epochs=1), tmp_path / "start").run()
    row = json.loads(manifest.read_text().splitlines()[0])
    texts = [{**row, "text": "žero"}, {**json.loads(manifest.read_text().splitlines()[1]), "text": "one"}]
    new = manifest.parent / "new.jsonl"
    new.write_text("".join(json.dumps(line) + "\n" for line in texts))
    config = configuration(new, start_from=best, start=StartConfig(new_alphabet=True), epochs=1)
    trainer = Trainer(config, tmp_path / "new")
    bundle, tokens = Bundle.load(best), trainer.corpus.tokenizer.tokens
    assert "ž" in tokens
    for index, token in enumerate(tokens):
        if token in bundle.metadata["tokens"]:
            old = bundle.weights["output.weight"][bundle.metadata["tokens"].index(token)]
            assert torch.equal(trainer.model.output.weight[index], old)
    assert torch.equal(
        trainer.model.recurrent[0].forwards.input_weight, bundle.weights["recurrent.0.forwards.input_weight"]
    )
    trainer.run()


def test_another_sample_rate_keeps_what_the_low_bins_have_learnt(spoken_digits: Manifests, tmp_path: Path) -> None:
    """From 8 to 16 kHz the layers above the convolutions start with zeros for the new bins; and back again, cut off."""
    manifest = spoken_digits(8)
    low = Trainer(configuration(manifest, epochs=1), tmp_path / "low").run()
    wide = dataclasses.replace(TINY, frontend=FrontendConfig(16000))
    trainer = Trainer(configuration(manifest, model=wide, start_from=low, epochs=1), tmp_path / "high")
    old = Bundle.load(low).weights
    name = "recurrent.0.forwards.input_weight"
    channels = TINY.convolutions[-1].channels
    grid = trainer.model.state_dict()[name].unflatten(1, (channels, -1))
    old_grid = old[name].unflatten(1, (channels, -1))
    assert torch.equal(grid[..., : old_grid.shape[2]], old_grid)
    assert not grid[..., old_grid.shape[2] :].any()
    assert trainer.model.frontend.mean.any()
    high = trainer.run()
    back = Trainer(configuration(manifest, start_from=high, epochs=1), tmp_path / "back")
    cut = Bundle.load(high).weights[name].unflatten(1, (channels, -1))[..., : old_grid.shape[2]].flatten(1)
    assert torch.equal(back.model.state_dict()[name], cut)


def test_a_wider_model_starts_as_the_narrower_one(spoken_digits: Manifests, tmp_path: Path) -> None:
    """The same log-probabilities with three times the units, which then learn."""
    manifest = spoken_digits(8)
    model = dataclasses.replace(TINY, fully_connected=6, lookahead=2, bidirectional=False)
    narrow = Trainer(configuration(manifest, model=model, epochs=1), tmp_path / "narrow")
    start = narrow.run()
    wide = dataclasses.replace(model, hidden=3 * TINY.hidden)
    trainer = Trainer(configuration(manifest, model=wide, start_from=start, epochs=1), tmp_path / "wide")
    samples, lengths = torch.randn(2, 8000, generator=torch.Generator().manual_seed(1)), torch.tensor([8000, 5000])
    with torch.no_grad():
        expected, found = (each.model.eval()(samples, lengths)[0] for each in (narrow, trainer))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    before = trainer.model.recurrent[0].forwards.recurrent_weight[TINY.hidden - 1].clone()
    trainer.run()
    assert (trainer.model.recurrent[0].forwards.recurrent_weight[TINY.hidden - 1] != before).all()


def lexicon_of(folder: Path, words: dict[str, str]) -> Path:
    path = folder / "lexicon.txt"
    path.write_text("".join(f"{word} {phones}\n" for word, phones in words.items()))
    return path


DIGITS = {
    "zero": "Z IH R OW", "one": "W AH N", "two": "T UW", "three": "TH R IY", "four": "F AO R", "five": "F AY V",
    "six": "S IH K S", "seven": "S EH V AH N", "eight": "EY T", "nine": "N AY N",
}  # fmt: skip


def test_phones_are_learnt_beside_letters(spoken_digits: Manifests, tmp_path: Path) -> None:
    """The loss is that of the letters and the weighted one of the phones; words without pronunciation cost nothing."""
    manifest = spoken_digits(8)
    model = dataclasses.replace(TINY, phones=len(PHONE_TOKENS))

    def trained(weight: float, words: dict[str, str], epochs: int) -> Trainer:
        data = DataConfig((manifest,), manifest, workers=0, lexicon=lexicon_of(tmp_path, words))
        optimizer = OptimizerConfig("sgd", 1e-3, 0.9, phone_weight=weight)
        config = configuration(manifest, data=data, model=model, optimizer=optimizer, epochs=epochs)
        return Trainer(config, tmp_path / f"{weight}-{len(words)}")

    def loss(weight: float, words: dict[str, str]) -> torch.Tensor:
        trainer = trained(weight, words, 1)
        return Objective(trainer.model.eval(), trainer.config)(batch_of(trainer), (1, 1, 0))[0].detach()

    letters, one, half = loss(0.0, DIGITS), loss(1.0, DIGITS), loss(0.5, DIGITS)
    assert bool((one > letters + 1).all())
    torch.testing.assert_close(half, (letters + one) / 2)
    torch.testing.assert_close(loss(1.0, {"other": "AH"}), letters)
    trainer = trained(1.0, DIGITS, 4)
    before = trainer.model.phone_output.weight.detach().clone()
    bundle = Bundle.load(trainer.run())
    assert not torch.equal(bundle.weights["phone_output.weight"], before)


def test_a_lexicon_and_the_layer_that_learns_it_come_together(tmp_path: Path) -> None:
    data = DataConfig((tmp_path,), tmp_path, lexicon=tmp_path)
    with pytest.raises(ValueError, match="come together"):
        configuration(tmp_path, data=data)
    with pytest.raises(ValueError, match="must be 41"):
        configuration(tmp_path, data=data, model=dataclasses.replace(TINY, phones=40))


def test_label_smoothing_by_hand() -> None:
    """Two frames of two outputs, p = (0.5, 0.5) and (0.8, 0.2), a third frame beyond the length."""
    logits = torch.tensor([[[0.5, 0.5], [0.8, 0.2], [0.9, 0.1]]]).log()
    expected = 0.0 + 0.8 * torch.tensor(1.6).log() + 0.2 * torch.tensor(0.4).log()
    torch.testing.assert_close(to_uniform(logits, torch.tensor([2])), expected.unsqueeze(0))


def test_label_smoothing_is_a_share_of_the_loss(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(configuration(spoken_digits(4)), tmp_path / "run")
    batch = batch_of(trainer)

    def losses(share: float) -> torch.Tensor:
        config = configuration(Path("-"), optimizer=OptimizerConfig(label_smoothing=share))
        return Objective(copy.deepcopy(trainer.model).eval(), config)(batch, (1, 1, 0))[0].detach()

    plain, half, all_ = losses(0.0), losses(0.5), losses(1.0)
    torch.testing.assert_close(half, (plain + all_) / 2)


def test_an_empty_piece_costs_nothing_and_leaves_statistics_alone(spoken_digits: Manifests, tmp_path: Path) -> None:
    model = dataclasses.replace(TINY, random_walk=2, fully_connected=8)
    trainer = Trainer(configuration(spoken_digits(4), model=model), tmp_path / "run")
    before = {name: buffer.clone() for name, buffer in trainer.model.named_buffers()}
    empty = Batch(torch.zeros(0, 0), torch.zeros(0), torch.zeros(0, 0), torch.zeros(0), [], [])
    losses, _ = Objective(trainer.model.train(), trainer.config)(empty, (1, 0, 0))
    losses.sum().backward()
    assert float(losses.detach().sum()) == 0
    for parameter in trainer.model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()
    assert all(torch.equal(buffer, before[name]) for name, buffer in trainer.model.named_buffers())


def test_options_that_do_not_go_together_are_refused() -> None:
    parallel = ParallelConfig("asynchronous")
    with pytest.raises(ValueError, match="average_decay"):
        configuration(Path("a"), parallel=parallel, optimizer=OptimizerConfig(average_decay=0.9))
    with pytest.raises(ValueError, match="float16"):
        configuration(Path("a"), parallel=parallel, compute=ComputeConfig("float16"))


def test_the_rate_test_stops_where_the_loss_runs_away(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Without batch normalisation it does, soon; the suggestion, well below, trains."""
    model = dataclasses.replace(TINY, batch_norm=False)
    config = configuration(spoken_digits(8), model=model, optimizer=OptimizerConfig("sgd", 1.0, 0.9))
    test = find_rate(Trainer(config, tmp_path / "run"), 60)
    assert test.rates == sorted(test.rates)
    assert len(test.rates) < 60
    assert test.losses[-1] > 2 * min(test.losses) or test.losses[-1] != test.losses[-1]
    draw_rates(tmp_path / "rates.png", test)
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")
    optimizer = OptimizerConfig("sgd", test.suggestion, 0.9)
    trainer = Trainer(dataclasses.replace(config, optimizer=optimizer, epochs=10), tmp_path / "after")
    trainer.run()
    assert trainer.state.history[-1]["loss"] < 0.9 * trainer.state.history[0]["loss"]


def test_the_rate_test_passes_over_what_cannot_be_read(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Three of four files are gone once the features are measured: of 20 minibatches 5 have a loss."""
    manifest = spoken_digits(4)
    trainer = Trainer(configuration(manifest, batch_size=1), tmp_path / "run")
    for number in range(3):
        (manifest.parent / f"{number}.wav").unlink()
    test = find_rate(trainer, 20)
    assert len(test.rates) == 5
    assert min(test.losses) > 0
    (manifest.parent / "3.wav").unlink()
    with pytest.raises(InputError, match="none of the utterances tried can be read"):
        find_rate(trainer, 20)
