"""Training from a bundle: another alphabet, another sample rate, frozen parts."""

import dataclasses
import json
import logging
from pathlib import Path

import pytest
import torch
from conftest import TINY
from helpers.training import Manifests, augmented_config, plain_config

from ds2.bundle import Bundle
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.train.config import DataConfig, StartConfig
from ds2.train.run_folder import dev_figures, read_start
from ds2.train.trainer import Trainer
from ds2.utils.errors import InputError


def test_starts_from_a_bundle(spoken_digits: Manifests, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Weights, alphabet and feature statistics come from the bundle; the vocabulary is that of the training set.

    The log begins with the bundle's own figures: those that it had when it was trained, on the same dev set.
    """
    config = augmented_config(spoken_digits(8), epochs=1)
    start = Trainer(config, tmp_path / "start").run()
    data = dataclasses.replace(config.data, closed_vocabulary=True)
    again = Trainer(dataclasses.replace(config, start_from=start, data=data), tmp_path / "again")
    bundle = Bundle.load(start)
    for name, tensor in again.model.state_dict().items():
        assert torch.equal(tensor, bundle.weights[name])
    assert list(again.data.tokenizer.tokens) == bundle.tokens
    caplog.set_level(logging.INFO, "ds2")
    assert Bundle.load(again.run()).vocabulary
    figures = dev_figures(bundle.training)
    assert caplog.messages[0] == f"epoch 0, {start}: {figures}"
    [before] = read_start(again.folder)
    assert dev_figures(before) == figures
    caplog.clear()
    Trainer(again.config, again.folder).run()
    assert not any(line.startswith("epoch 0") for line in caplog.messages)


def test_a_start_keeps_its_feature_statistics_whatever_else_changes(spoken_digits: Manifests, tmp_path: Path) -> None:
    config = augmented_config(spoken_digits(8), epochs=1)
    start = Trainer(config, tmp_path / "start").run()
    model = dataclasses.replace(config.model, dropout=0.3)
    again = Trainer(augmented_config(spoken_digits(4), model=model, start_from=start), tmp_path / "again")
    assert torch.equal(again.model.frontend.mean, Bundle.load(start).weights["frontend.mean"])


def test_a_start_of_another_shape_or_alphabet_is_refused(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    config = augmented_config(manifest, epochs=1)
    start = Trainer(config, tmp_path / "start").run()
    model = dataclasses.replace(config.model, recurrent_layers=config.model.recurrent_layers + 1)
    larger = dataclasses.replace(config, start_from=start, model=model)
    with pytest.raises(InputError, match="another shape"):
        Trainer(larger, tmp_path / "larger")
    row = json.loads(manifest.read_text().splitlines()[0])
    (manifest.parent / "strange.jsonl").write_text(json.dumps({**row, "text": "žluťoučký"}) + "\n")
    data = dataclasses.replace(config.data, train=(manifest.parent / "strange.jsonl",))
    with pytest.raises(InputError, match="alphabet"):
        Trainer(dataclasses.replace(config, start_from=start, data=data), tmp_path / "strange")


def test_frozen_parts_do_not_change_until_they_are_released(spoken_digits: Manifests, tmp_path: Path) -> None:
    start = StartConfig(freeze=("convolutions", "recurrent.0"), freeze_epochs=1)
    config = plain_config(spoken_digits(8), start=start)

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
        Trainer(plain_config(spoken_digits(4), start=StartConfig(freeze=("recurent",))), tmp_path / "other")


def test_a_new_alphabet_keeps_the_rows_that_both_have(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    best = Trainer(plain_config(manifest, epochs=1), tmp_path / "start").run()
    row = json.loads(manifest.read_text().splitlines()[0])
    texts = [{**row, "text": "žero"}, {**json.loads(manifest.read_text().splitlines()[1]), "text": "one"}]
    new = manifest.parent / "new.jsonl"
    new.write_text("".join(json.dumps(line) + "\n" for line in texts))
    config = plain_config(new, start_from=best, start=StartConfig(new_alphabet=True), epochs=1)
    trainer = Trainer(config, tmp_path / "new")
    bundle, tokens = Bundle.load(best), trainer.data.tokenizer.tokens
    assert "ž" in tokens
    for index, token in enumerate(tokens):
        if token in bundle.tokens:
            old = bundle.weights["output.weight"][bundle.tokens.index(token)]
            assert torch.equal(trainer.model.output.weight[index], old)
    assert torch.equal(
        trainer.model.recurrent[0].forwards.input_weight, bundle.weights["recurrent.0.forwards.input_weight"]
    )
    trainer.run()


def test_an_alphabet_of_other_manifests(spoken_digits: Manifests, tmp_path: Path) -> None:
    """Rare characters are in the training or in the dev set alone."""
    manifest = spoken_digits(8)
    dev = manifest.parent / "dev.jsonl"
    dev.write_text(json.dumps({**json.loads(manifest.read_text().splitlines()[0]), "text": "žero"}) + "\n")

    def trainer(*alphabet: Path) -> Trainer:
        data = DataConfig((manifest,), dev, workers=0, alphabet=alphabet)
        return Trainer(dataclasses.replace(plain_config(manifest, epochs=1), data=data), tmp_path / str(len(alphabet)))

    assert "ž" in trainer(manifest, dev).data.tokenizer.tokens
    with pytest.raises(InputError, match="lacks: 'ž'"):
        trainer()
    with pytest.raises(InputError, match=r"lacks: .*utterances"):
        trainer(dev)


def test_another_sample_rate_keeps_the_weights_of_the_low_bins(spoken_digits: Manifests, tmp_path: Path) -> None:
    """From 8 to 16 kHz the layers above the convolutions start with zeros for the new bins; and back again, cut off."""
    manifest = spoken_digits(8)
    low = Trainer(plain_config(manifest, epochs=1), tmp_path / "low").run()
    wide = dataclasses.replace(TINY, frontend=FrontendConfig(16000))
    trainer = Trainer(plain_config(manifest, model=wide, start_from=low, epochs=1), tmp_path / "high")
    old = Bundle.load(low).weights
    name = "recurrent.0.forwards.input_weight"
    channels = TINY.convolutions[-1].channels
    grid = trainer.model.state_dict()[name].unflatten(1, (channels, -1))
    old_grid = old[name].unflatten(1, (channels, -1))
    assert torch.equal(grid[..., : old_grid.shape[2]], old_grid)
    assert not grid[..., old_grid.shape[2] :].any()
    assert trainer.model.frontend.mean.any()
    high = trainer.run()
    back = Trainer(plain_config(manifest, start_from=high, epochs=1), tmp_path / "back")
    cut = Bundle.load(high).weights[name].unflatten(1, (channels, -1))[..., : old_grid.shape[2]].flatten(1)
    assert torch.equal(back.model.state_dict()[name], cut)


def assert_equal_outputs(one: AcousticModel, other: AcousticModel) -> None:
    """Of two utterances of different lengths."""
    samples, lengths = torch.randn(2, 8000, generator=torch.Generator().manual_seed(1)), torch.tensor([8000, 5000])
    with torch.no_grad():
        expected, found = (model.eval()(samples, lengths)[0] for model in (one, other))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_a_wider_model_starts_as_the_narrower_one(spoken_digits: Manifests, tmp_path: Path) -> None:
    """The same log-probabilities with three times the units, which then learn."""
    manifest = spoken_digits(8)
    model = dataclasses.replace(TINY, fully_connected=6, lookahead=2, bidirectional=False)
    narrow = Trainer(plain_config(manifest, model=model, epochs=1), tmp_path / "narrow")
    start = narrow.run()
    wide = dataclasses.replace(model, hidden=3 * TINY.hidden)
    trainer = Trainer(plain_config(manifest, model=wide, start_from=start, epochs=1), tmp_path / "wide")
    assert_equal_outputs(narrow.model, trainer.model)
    before = trainer.model.recurrent[0].forwards.recurrent_weight[TINY.hidden - 1].clone()
    trainer.run()
    assert (trainer.model.recurrent[0].forwards.recurrent_weight[TINY.hidden - 1] != before).all()


def test_wider_time_delay_layers_start_as_the_narrower_ones(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)

    def model(channels: int, bottleneck: int) -> ModelConfig:
        front = (ConvolutionConfig(channels // 4, (5, 5), (2, 2)), ConvolutionConfig(channels, (0, 1), (1, 1)))
        layer = ConvolutionConfig(channels, (1, 3), (1, 1), bottleneck=bottleneck, bypass=0.66)
        return dataclasses.replace(TINY, convolutions=(*front, layer, layer), recurrent_layers=0)

    narrow = Trainer(plain_config(manifest, model=model(16, 4), epochs=1), tmp_path / "narrow")
    start = narrow.run()
    trainer = Trainer(plain_config(manifest, model=model(24, 7), start_from=start, epochs=1), tmp_path / "wide")
    assert_equal_outputs(narrow.model, trainer.model)
    before = trainer.model.convolutions[3].wide[:16, 4:7].clone()
    trainer.run()
    assert (trainer.model.convolutions[3].wide[:16, 4:7] != before).all()


def test_a_forward_only_model_starts_as_the_forward_half(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    both = dataclasses.replace(TINY, bidirectional=True)
    start = Trainer(plain_config(manifest, model=both, epochs=1), tmp_path / "both").run()
    live = dataclasses.replace(
        both, bidirectional=False, lookahead=2, frontend=dataclasses.replace(both.frontend, power="adaptive")
    )
    trainer = Trainer(plain_config(manifest, model=live, start_from=start, epochs=1), tmp_path / "live")
    found, expected = trainer.model.state_dict(), Bundle.load(start).weights
    shared = [name for name in found if name.startswith("recurrent.")]
    assert shared
    assert all(torch.equal(found[name], expected[name]) for name in shared)
    assert not any("backwards" in name for name in found)
    trainer.run()


def test_a_model_of_letters_alone_starts_from_one_that_hears_phones_too(
    spoken_digits: Manifests, tmp_path: Path
) -> None:
    manifest = spoken_digits(8)
    source = Trainer(plain_config(manifest, epochs=1), tmp_path / "letters").run()
    bundle = Bundle.load(source)
    layer = {"phone_output.weight": torch.randn(41, TINY.hidden), "phone_output.bias": torch.zeros(41)}
    config = {**bundle.config, "phones": 41}
    dataclasses.replace(bundle, weights=bundle.weights | layer, config=config).save(tmp_path / "phones.safetensors")
    start = tmp_path / "phones.safetensors"
    trainer = Trainer(plain_config(manifest, start_from=start, epochs=1), tmp_path / "again")
    assert torch.equal(trainer.model.output.weight, bundle.weights["output.weight"])


def test_outputs_for_the_phones_of_another_language_are_made_anew(spoken_digits: Manifests, tmp_path: Path) -> None:
    manifest = spoken_digits(8)
    bundle = Bundle.load(Trainer(plain_config(manifest, epochs=1), tmp_path / "letters").run())
    layer = {"phone_output.weight": torch.ones(41, TINY.hidden), "phone_output.bias": torch.zeros(41)}
    start, config = tmp_path / "english.safetensors", {**bundle.config, "phones": 41}
    dataclasses.replace(bundle, weights=bundle.weights | layer, config=config).save(start)
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("我 uo3\n")
    trainer = Trainer(
        plain_config(
            manifest,
            start_from=start,
            data=DataConfig((manifest,), manifest, 0, lexicon=lexicon),
            model=dataclasses.replace(TINY, phones=203),
        ),
        tmp_path / "mandarin",
    )
    assert trainer.model.phone_output is not None
    weight = trainer.model.phone_output.weight
    assert weight.shape == (203, TINY.hidden)
    assert not (weight[:41] == 1).any()
