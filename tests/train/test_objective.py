"""What is minimised: label smoothing, phones beside letters, and microbatches without utterances."""

import copy
import dataclasses
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from conftest import TINY
from helpers.training import Manifests, plain_config, train_batch

from ds2.bundle import Bundle
from ds2.data.dataset import Batch
from ds2.data.phone_sets import CMUDICT
from ds2.model.config import ConvolutionConfig, ModelConfig
from ds2.train.config import DataConfig, OptimizerConfig
from ds2.train.objective import Objective, to_uniform
from ds2.train.phone_loss import PhoneLoss
from ds2.train.trainer import Trainer


def test_label_smoothing_by_hand() -> None:
    """Two frames of two outputs, p = (0.5, 0.5) and (0.8, 0.2), a third frame beyond the length."""
    logits = torch.tensor([[[0.5, 0.5], [0.8, 0.2], [0.9, 0.1]]]).log()
    expected = 0.0 + 0.8 * torch.tensor(1.6).log() + 0.2 * torch.tensor(0.4).log()
    torch.testing.assert_close(to_uniform(logits, torch.tensor([2])), expected.unsqueeze(0))


def test_label_smoothing_is_a_weighted_part_of_the_loss(spoken_digits: Manifests, tmp_path: Path) -> None:
    trainer = Trainer(plain_config(spoken_digits(4)), tmp_path / "run")
    batch = train_batch(trainer)

    def losses(weight: float) -> torch.Tensor:
        config = plain_config(Path("-"), optimizer=OptimizerConfig(label_smoothing=weight))
        return Objective(copy.deepcopy(trainer.model).eval(), config)(batch, (1, 1, 0))[0].detach()

    plain, half, all_ = losses(0.0), losses(0.5), losses(1.0)
    torch.testing.assert_close(half, (plain + all_) / 2)


def test_an_empty_piece_costs_nothing_and_leaves_statistics_alone(spoken_digits: Manifests, tmp_path: Path) -> None:
    model = dataclasses.replace(TINY, random_walk=2, fully_connected=8)
    trainer = Trainer(plain_config(spoken_digits(4), model=model), tmp_path / "run")
    before = {name: buffer.clone() for name, buffer in trainer.model.named_buffers()}
    empty = Batch(torch.zeros(0, 0), torch.zeros(0), torch.zeros(0, 0), torch.zeros(0), [], [])
    losses, _ = Objective(trainer.model.train(), trainer.config)(empty, (1, 0, 0))
    losses.sum().backward()
    assert float(losses.detach().sum()) == 0
    for parameter in trainer.model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()
    assert all(torch.equal(buffer, before[name]) for name, buffer in trainer.model.named_buffers())


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
    model = dataclasses.replace(TINY, phones=len(CMUDICT.tokens))

    def trained(weight: float, words: dict[str, str], epochs: int) -> Trainer:
        data = DataConfig((manifest,), manifest, workers=0, lexicon=lexicon_of(tmp_path, words))
        optimizer = OptimizerConfig("sgd", 1e-3, 0.9, phone_weight=weight)
        config = plain_config(manifest, data=data, model=model, optimizer=optimizer, epochs=epochs)
        return Trainer(config, tmp_path / f"{weight}-{len(words)}")

    def loss(weight: float, words: dict[str, str]) -> torch.Tensor:
        trainer = trained(weight, words, 1)
        return Objective(trainer.model.eval(), trainer.config, trainer.phone_loss)(train_batch(trainer), (1, 1, 0))[
            0
        ].detach()

    letters, one, half = loss(0.0, DIGITS), loss(1.0, DIGITS), loss(0.5, DIGITS)
    assert bool((one > letters + 1).all())
    torch.testing.assert_close(half, (letters + one) / 2)
    torch.testing.assert_close(loss(1.0, {"other": "AH"}), letters)
    trainer = trained(1.0, DIGITS, 4)
    before = trainer.model.phone_output.weight.detach().clone()
    bundle = Bundle.load(trainer.run())
    assert not torch.equal(bundle.weights["phone_output.weight"], before)


def test_phones_learn_as_whole_sequences(spoken_digits: Manifests, tmp_path: Path) -> None:
    """CTC-CRF knows from the training texts which phones follow each other, so its loss is smaller than that of CTC."""
    manifest = spoken_digits(8)
    data = DataConfig((manifest,), manifest, workers=0, lexicon=lexicon_of(tmp_path, DIGITS))
    model = dataclasses.replace(TINY, phones=len(CMUDICT.tokens))

    def trained(kind: Literal["ctc", "ctc-crf"], epochs: int) -> Trainer:
        optimizer = OptimizerConfig("adamw", 1e-3, phone_loss=kind)
        config = plain_config(manifest, data=data, model=model, optimizer=optimizer, epochs=epochs)
        return Trainer(config, tmp_path / f"{kind}-{epochs}")

    def loss(trainer: Trainer) -> float:
        """Of the phones alone."""
        batch, model = train_batch(trainer), trainer.model.eval()
        output = model.network(*model.frontend(batch.samples, batch.sample_lengths))
        assert trainer.phone_loss is not None
        assert output.phone_logits is not None
        texts = [utterance.text for utterance in batch.utterances]
        return float(trainer.phone_loss(output.phone_logits, output.lengths, texts).detach().sum())

    crf, ctc = trained("ctc-crf", 1), trained("ctc", 1)
    assert loss(crf) < loss(ctc)
    longer = trained("ctc-crf", 20)
    before = loss(longer)
    longer.run()
    assert loss(longer) < before


def test_the_trigram_of_phones_reaches_a_device_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each minibatch the GPU would wait for a copy of it."""
    data = DataConfig((tmp_path,), tmp_path, workers=0, lexicon=(lexicon := lexicon_of(tmp_path, DIGITS)))
    model = dataclasses.replace(TINY, phones=len(CMUDICT.tokens))
    optimizer = OptimizerConfig("adamw", 1e-3, phone_loss="ctc-crf")
    loss = PhoneLoss(plain_config(tmp_path, data=data, model=model, optimizer=optimizer), lexicon, ["one two"])
    tables: list[torch.Tensor] = []

    def crf(logits: torch.Tensor, *rest: Any) -> torch.Tensor:
        tables.append(rest[3].table)
        return logits.sum((1, 2))

    monkeypatch.setattr("ds2.train.phone_loss.ctc_crf_loss", crf)
    for _ in range(2):
        loss(torch.zeros(1, 9, model.phones, device="meta"), torch.zeros(1, device="meta"), ["two"])
    assert tables[0].device.type == "meta"
    assert tables[1] is tables[0]


def test_biphones_and_gates_begin_as_if_they_were_not_there_and_are_learnt(
    spoken_digits: Manifests, tmp_path: Path
) -> None:
    """From a model without them; CTC of the phones, as in fine-tuning, leaves the biphones as they are."""
    manifest = spoken_digits(8)
    data = DataConfig((manifest,), manifest, workers=0, lexicon=lexicon_of(tmp_path, DIGITS))
    layers = ConvolutionConfig(8, (5, 5), (2, 2)), ConvolutionConfig(12, (0, 3), (1, 1))
    plain = dataclasses.replace(TINY, convolutions=layers, phones=len(CMUDICT.tokens))
    gated = dataclasses.replace(layers[1], gate=4)
    more = dataclasses.replace(plain, convolutions=(layers[0], gated), biphones=6)

    def trained(model: ModelConfig, kind: Literal["ctc", "ctc-crf"], start: Path | None) -> Trainer:
        optimizer = OptimizerConfig("adamw", 1e-3, phone_loss=kind)
        config = plain_config(manifest, data=data, model=model, optimizer=optimizer, epochs=1, start_from=start)
        return Trainer(config, tmp_path / f"{kind}-{model.biphones}-{start is None}")

    first = trained(plain, "ctc-crf", None)
    start = first.run()
    second, batch = trained(more, "ctc-crf", start), train_batch(first)
    features = first.model.frontend(batch.samples, batch.sample_lengths)
    old, new = first.model.eval().network(*features), second.model.eval().network(*features)
    torch.testing.assert_close(new.phone_logits, old.phone_logits)
    assert new.biphones is not None
    assert not new.biphones.any()
    learnt = Bundle.load(second.run())
    assert all(learnt.weights[name].any() for name in ("biphones.output.weight", "gates.1.wide.weight"))
    third = trained(more, "ctc", tmp_path / "ctc-crf-6-False" / "best.safetensors")
    kept = Bundle.load(third.run()).weights
    torch.testing.assert_close(kept["biphones.output.weight"], learnt.weights["biphones.output.weight"])
    assert not torch.equal(kept["phone_output.weight"], learnt.weights["phone_output.weight"])
    with pytest.raises(ValueError, match=r"model\.biphones"):
        trained(more, "ctc", None)


def test_a_lexicon_and_the_layer_that_learns_it_come_together(tmp_path: Path) -> None:
    data = DataConfig((tmp_path,), tmp_path, lexicon=tmp_path)
    with pytest.raises(ValueError, match="come together"):
        plain_config(tmp_path, data=data)
    with pytest.raises(ValueError, match="must be 41"):
        plain_config(tmp_path, data=data, model=dataclasses.replace(TINY, phones=40))
