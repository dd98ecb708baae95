"""The training objective: computes the loss of each utterance of a batch from its samples."""

import torch
from torch import Tensor, nn

from ds2.audio.augment import augment_features, seeded_generator
from ds2.ctc import ctc_loss
from ds2.ctc.alignment import frame_labels
from ds2.data.dataset import Batch
from ds2.model.acoustic import AcousticModel, Output
from ds2.model.frontend import valid_mask
from ds2.model.random_walk import affinity_loss
from ds2.train.config import TrainConfig
from ds2.train.phone_loss import PhoneLoss
from ds2.train.recompute import recompute_activations

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Objective(nn.Module):
    """CTC of the augmented features and, if configured, the loss of the random walk's affinities and label smoothing.

    For a model that knows phones `phone_loss` is added.

    A rank whose part of a minibatch is empty takes part with a loss of 0 and gradients of 0, because the others wait
    for it in batch normalisation and in the exchange of gradients.
    """

    def __init__(self, model: AcousticModel, config: TrainConfig, phone_loss: PhoneLoss | None = None):
        super().__init__()
        self.model = model
        self.augment = config.augment
        self.smoothing = config.optimizer.label_smoothing
        self.precision = PRECISIONS[config.compute.precision]
        self.phone_loss = phone_loss
        if config.compute.recompute:
            recompute_activations(model)
        self.network = torch.compile(model.network, dynamic=True) if config.compute.compile else model.network

    def forward(self, batch: Batch, key: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """(B,) nats, (B,) output frames; the masks over the features are a function of `key`.

        The loss of an utterance with more labels than its frames can hold is 0.
        """
        device = self.model.output.weight.device
        if not batch.utterances:
            return self._nothing(device)
        tensors = (batch.samples, batch.sample_lengths, batch.targets, batch.target_lengths)
        samples, lengths, targets, target_lengths = (each.to(device, non_blocking=True) for each in tensors)
        features, lengths = self.model.frontend(samples, lengths)
        # The masks are drawn on the host, by lengths that it knows without a wait for the GPU.
        frames = self.model.frontend.frames(batch.sample_lengths)
        features = augment_features(features, frames, self.augment, seeded_generator(*key))
        logits, lengths, affinities, phone_logits, biphones = self._scores(features, lengths)
        losses = ctc_loss(logits, targets, lengths, target_lengths, reduction="none", zero_infinity=True)
        if self.smoothing:
            losses = (1 - self.smoothing) * losses + self.smoothing * to_uniform(logits, lengths)
        if affinities is not None:
            labels = frame_labels(logits, lengths, targets, target_lengths)
            losses = losses + affinity_loss(affinities, labels, lengths)
        if phone_logits is not None and self.phone_loss is not None:
            spoken = [each.text for each in batch.utterances]
            losses = losses + self.phone_loss(phone_logits, lengths, spoken, biphones)
        return losses, lengths

    def _scores(self, features: Tensor, lengths: Tensor) -> Output:
        if self.precision is torch.float32:
            return self.network(features, lengths)
        with torch.autocast(features.device.type, self.precision):
            return self.network(features, lengths)

    def _nothing(self, device: torch.device) -> tuple[Tensor, Tensor]:
        features = torch.zeros(1, self.model.config.frontend.bins, 4 * self.model.config.stride, device=device)
        output = self._scores(features, torch.zeros(1, dtype=torch.long, device=device))
        scores = (output.logits, output.affinities, output.phone_logits, output.biphones)
        nothing = torch.stack([0.0 * score.sum() for score in scores if score is not None]).sum()
        return nothing.unsqueeze(0), output.lengths


def to_uniform(logits: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, V), (B,) -> (B,) nats: divergence of each frame's posteriors from uniform ones, summed over frames.

    The label smoothing of Kim et al. 2018, "Improved training for online end-to-end speech recognition systems": CTC
    has no label for each frame that could be smoothed, so the posteriors themselves are pulled towards uniform ones.
    """
    log_probs = logits.float().log_softmax(2)
    divergence = (log_probs.exp() * log_probs).sum(2) + torch.tensor(float(logits.shape[2])).log()
    return (divergence * valid_mask(lengths, logits.shape[1])).sum(1)
