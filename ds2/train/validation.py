"""Validation on the dev set, after every epoch."""

from collections.abc import Iterable

import torch

from ds2.ctc import ctc_loss
from ds2.data.dataset import Batch
from ds2.decoder import greedy
from ds2.metrics import cer, wer
from ds2.model.acoustic import AcousticModel
from ds2.text import Tokenizer
from ds2.train.distributed.ranks import Ranks


@torch.no_grad()
def validate(model: AcousticModel, tokenizer: Tokenizer, batches: Iterable[Batch], ranks: Ranks) -> dict[str, float]:
    """`dev_loss` (nats per utterance), `wer` and `cer`, greedily decoded; all NaN when no utterance can be read.

    Each rank passes its own batches; every rank returns the figures over all of them.
    """
    model.eval()
    device = model.output.weight.device
    references: list[str] = []
    hypotheses: list[str] = []
    loss = 0.0
    for batch in batches:
        if not batch.utterances:
            continue
        log_probs, lengths = model(batch.samples.to(device), batch.sample_lengths.to(device))
        targets, target_lengths = batch.targets.to(device), batch.target_lengths.to(device)
        loss += float(ctc_loss(log_probs, targets, lengths, target_lengths, reduction="none", zero_infinity=True).sum())
        references += [utterance.text for utterance in batch.utterances]
        hypotheses += [tokenizer.decode(hypothesis.tokens) for hypothesis in greedy(log_probs, lengths)]
    parts = ranks.gather((loss, references, hypotheses))
    loss = sum(part[0] for part in parts)
    references = [text for part in parts for text in part[1]]
    hypotheses = [text for part in parts for text in part[2]]
    if not references:
        return dict.fromkeys(("dev_loss", "wer", "cer"), float("nan"))
    return {
        "dev_loss": loss / len(references),
        "wer": wer(references, hypotheses),
        "cer": cer(references, hypotheses),
    }
