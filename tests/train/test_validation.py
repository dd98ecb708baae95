"""Validation on the dev set."""

import math
from dataclasses import replace

import pytest
import torch
from conftest import TINY
from helpers.training import Manifests, plain_config

from ds2.data.phone_sets import CMUDICT
from ds2.metrics import wer
from ds2.train.config import DataConfig
from ds2.train.data import TrainingData
from ds2.train.distributed.ranks import Ranks
from ds2.train.trainer import Trainer
from ds2.train.validation import validate


def test_losses_are_torchs_and_errors_those_of_the_best_path(spoken_digits: Manifests, tmp_path) -> None:
    """Dev loss in nats per utterance; one utterance at a time against all at once."""
    trainer = Trainer(plain_config(spoken_digits(4)), tmp_path / "run")
    data, model = trainer.data, trainer.model.eval()
    found = validate(model, data.tokenizer, data.dev_loader(), Ranks())
    losses, hypotheses = [], []
    for utterance in data.dev:
        [batch] = list(data.plain_loader([utterance]))
        log_probs, lengths = model(batch.samples, batch.sample_lengths)
        targets, rows = batch.targets.long(), log_probs.transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(rows, targets, lengths, batch.target_lengths, reduction="sum")
        losses.append(float(loss.detach()))
        best = torch.unique_consecutive(log_probs[0].argmax(1)).tolist()
        hypotheses.append(data.tokenizer.decode([token for token in best if token]))
    assert found["dev_loss"] == pytest.approx(sum(losses) / 4, rel=1e-4)
    assert found["wer"] == wer([utterance.text for utterance in data.dev], hypotheses)


def test_figures_are_nan_where_nothing_can_be_read(spoken_digits: Manifests, tmp_path) -> None:
    trainer = Trainer(plain_config(spoken_digits(2)), tmp_path / "run")
    data = TrainingData(trainer.config, Ranks(), None)
    assert all(math.isnan(value) for value in validate(trainer.model, data.tokenizer, [], Ranks()).values())


def test_phones_are_counted_where_all_words_have_a_pronunciation(spoken_digits: Manifests, tmp_path) -> None:
    """A model whose phone output says one phone for ever gets that one right or wrong, and deletes the others."""
    manifest, lexicon = spoken_digits(4), tmp_path / "lexicon.txt"
    lexicon.write_text("one W AH N\n")
    sets = DataConfig((manifest,), manifest, workers=0, lexicon=lexicon)
    config = plain_config(manifest, data=sets, model=replace(TINY, phones=len(CMUDICT.tokens)))
    trainer = Trainer(config, tmp_path / "run")
    data, model = trainer.data, trainer.model
    assert model.phone_output is not None
    torch.nn.init.zeros_(model.phone_output.weight)
    model.phone_output.bias.data = 9.0 * torch.nn.functional.one_hot(
        torch.tensor(CMUDICT.numbers("W")[0]), len(CMUDICT.tokens)
    )
    words = sorted({word for utterance in data.dev for word in utterance.text.split()})
    known = {word: [CMUDICT.numbers(("W", "AH", "N"))] for word in words}
    found = validate(model, data.tokenizer, data.dev_loader(), Ranks(), known)
    lengths = [4 * len(utterance.text.split()) - 1 for utterance in data.dev]  # with a bar between words
    assert found["per"] == pytest.approx(sum(length - 1 for length in lengths) / sum(lengths))
    assert "per" not in validate(model, data.tokenizer, data.dev_loader(), Ranks(), {})
    assert "per" not in validate(model, data.tokenizer, data.dev_loader(), Ranks())
