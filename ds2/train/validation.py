"""Validation on the dev set, after every epoch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ds2.ctc import ctc_loss
from ds2.data.cmudict import Pronunciation, phone_targets
from ds2.data.dataset import Batch
from ds2.data.phone_sets import phone_set
from ds2.decoder.greedy import greedy
from ds2.metrics import cer, wer
from ds2.model.acoustic import AcousticModel
from ds2.text import Tokenizer
from ds2.train.distributed.ranks import Ranks


@torch.no_grad()
def validate(
    model: AcousticModel,
    tokenizer: Tokenizer,
    batches: Iterable[Batch],
    ranks: Ranks,
    pronunciations: Mapping[str, Sequence[Pronunciation]] | None = None,
) -> dict[str, float]:
    """`dev_loss` (nats per utterance), `wer` and `cer`, greedily decoded; all NaN when no utterance can be read.

    With pronunciations, for a model that knows phones, also their error rate `per`, over the utterances whose words
    are all among them. Each rank passes its own batches; every rank returns the figures over all of them.
    """
    model.eval()
    texts = _Texts()
    phones = _Texts()
    loss = 0.0
    for batch in batches:
        if not batch.utterances:
            continue
        device = model.output.weight.device
        scores, lengths = model.all_log_probs(batch.samples.to(device), batch.sample_lengths.to(device))
        log_probs, of_phones, _ = scores.tensor_split((len(tokenizer), len(tokenizer) + model.config.phones), dim=2)
        targets, target_lengths = batch.targets.to(device), batch.target_lengths.to(device)
        losses = ctc_loss(log_probs, targets, lengths, target_lengths, reduction="none", zero_infinity=True)
        loss += float(losses.sum())
        references = [utterance.text for utterance in batch.utterances]
        texts.add(references, [tokenizer.decode(found.tokens) for found in greedy(log_probs, lengths)])
        if pronunciations is not None:
            phones.add(*_phone_texts(references, of_phones, lengths, pronunciations))
    # The error rates are of all texts together, not means over the ranks.
    parts = ranks.gather((loss, texts, phones))
    texts, phones = _Texts.joined([part[1] for part in parts]), _Texts.joined([part[2] for part in parts])
    if not texts.references:
        return dict.fromkeys(("dev_loss", "wer", "cer"), float("nan"))
    figures = {
        "dev_loss": sum(part[0] for part in parts) / len(texts.references),
        "wer": wer(texts.references, texts.hypotheses),
        "cer": cer(texts.references, texts.hypotheses),
    }
    return figures | ({"per": wer(phones.references, phones.hypotheses)} if phones.references else {})


@dataclass
class _Texts:
    references: list[str] = field(default_factory=list)
    hypotheses: list[str] = field(default_factory=list)

    def add(self, references: Sequence[str], hypotheses: Sequence[str]) -> None:
        self.references += references
        self.hypotheses += hypotheses

    @classmethod
    def joined(cls, parts: "Iterable[_Texts]") -> "_Texts":
        result = cls()
        for part in parts:
            result.add(part.references, part.hypotheses)
        return result


def _phone_texts(
    texts: Sequence[str], log_probs: Tensor, lengths: Tensor, pronunciations: Mapping[str, Sequence[Pronunciation]]
) -> tuple[list[str], list[str]]:
    """Right and recognised phones of the texts whose words all have a pronunciation."""
    targets, sizes = phone_targets(texts, pronunciations)
    phones = phone_set(log_probs.shape[2])
    known = [
        (phones.text(row[:size].tolist()), phones.text(hypothesis.tokens))
        for row, size, hypothesis in zip(targets, sizes.tolist(), greedy(log_probs, lengths), strict=True)
        if size
    ]
    return [right for right, _ in known], [said for _, said in known]
