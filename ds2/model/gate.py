"""The gate of channels: each is scaled by what the utterance sounded like so far.

A frame hears its neighbours only, but speaker, microphone and room are those of the whole utterance. Squeeze and
excitation (Hu et al. 2018; Han et al. 2020, "ContextNet", section 2.2.2) takes the mean of the utterance; here it is
that of the frames so far, so that the model streams:

    m[t] = (x[0] + ... + x[t] + K prior) / (t + 1 + K)        gate[t] = 2 sigmoid(W2 relu(W1 m[t] + b1) + b2)

W2 and b2 begin with zeros, so that a gate begins as the identity.
"""

import math

import torch
from torch import Tensor, nn

from ds2.model.config import GATE_FRAMES
from ds2.model.initial_weights import draw_normal


class ChannelGate(nn.Module):
    """Scales the channels of a layer over one bin."""

    def __init__(self, channels: int, units: int):
        super().__init__()
        self.prior = nn.Parameter(torch.zeros(channels))  # the mean that is expected before the first frame
        self.narrow = nn.Linear(channels, units)
        self.wide = nn.Linear(units, channels)
        draw_normal(self.narrow.weight, 1 / math.sqrt(channels))
        for parameter in (self.narrow.bias, self.wide.weight, self.wide.bias):
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, 1, T) of whole utterances -> the same, scaled."""
        rows = x.squeeze(2).transpose(1, 2)
        frames = torch.arange(1, rows.shape[1] + 1, device=x.device)
        return self._scaled(rows, rows.float().cumsum(1), frames.view(1, -1))

    def step(self, x: Tensor, before: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, 1, T) of a chunk, 0 before the stream; (B, C) sum of the frames before it; (B, T) their numbers.

        Returns:
            (B, C, 1, T) the chunk, scaled; (B, C) sum of the frames so far, in float64.
        """
        rows = x.squeeze(2).transpose(1, 2)
        sums = before.unsqueeze(1) + rows.double().cumsum(1)
        return self._scaled(rows, sums, numbers.clamp(min=-1) + 1), sums[:, -1]

    def _scaled(self, rows: Tensor, sums: Tensor, frames: Tensor) -> Tensor:
        """(B, T, C), (B, T, C) sums so far, (B or 1, T) how many frames they are of -> (B, C, 1, T)."""
        mean = (sums + GATE_FRAMES * self.prior) / (frames + GATE_FRAMES).unsqueeze(2)
        gate = 2.0 * torch.sigmoid(self.wide(torch.relu(self.narrow(mean.float()))))
        return (rows * gate).transpose(1, 2).unsqueeze(2)
