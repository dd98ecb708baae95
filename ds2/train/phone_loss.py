"""The loss of the phones, next to that of the tokens (multi-task learning, Caruana 1997; Sanabria and Metze 2018)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ds2.ctc import ctc_loss
from ds2.ctc.crf import ctc_crf_loss
from ds2.ctc.trigram import Trigram
from ds2.data.cmudict import phone_targets, read_pronunciations
from ds2.data.phone_sets import phone_set
from ds2.train.config import TrainConfig

CTC_WEIGHT = 0.1  # of the CTC loss beside CTC-CRF


class PhoneLoss:
    """CTC or CTC-CRF (`optimizer.phone_loss`) of the utterances whose words are all in the lexicon."""

    def __init__(self, config: TrainConfig, lexicon: Path, texts: Iterable[str]):
        """`texts` of the training set, from which CTC-CRF estimates its trigram of phones.

        Raises:
            InputError: the lexicon cannot be read.
        """
        self.weight = config.optimizer.phone_weight
        self.phones = phone_set(config.model.phones)
        self.pronunciations = read_pronunciations(lexicon, self.phones)
        self.trigram = self._trigram(texts) if config.optimizer.phone_loss == "ctc-crf" else None

    def __call__(self, logits: Tensor, lengths: Tensor, texts: Sequence[str], biphones: Tensor | None = None) -> Tensor:
        """(B, T, P), (B,), (B, T, P - 1, P - 1) -> (B,) weighted nats; 0 if a word has no pronunciation."""
        targets, target_lengths = phone_targets(texts, self.pronunciations)
        targets, target_lengths = targets.to(logits.device), target_lengths.to(logits.device)
        if self.trigram is None:
            losses = ctc_loss(logits, targets, lengths, target_lengths, reduction="none", zero_infinity=True)
            if biphones is not None:  # they stay as they are, with gradients of 0: other ranks wait for these
                losses = losses + 0.0 * biphones.sum((1, 2, 3))
        else:
            self.trigram = replace(self.trigram, table=self.trigram.table.to(logits.device))  # copied once
            losses = ctc_crf_loss(logits, targets, lengths, target_lengths, self.trigram, CTC_WEIGHT, biphones)
        return self.weight * losses * (target_lengths > 0)

    def _trigram(self, texts: Iterable[str]) -> Trigram:
        rows = (phone_targets([text], self.pronunciations)[0][0].tolist() for text in texts)
        return Trigram.from_labels((row for row in rows if row), len(self.phones.tokens), self.phones.follows)
