"""Row convolution: a forward-only model looks a few frames ahead (Deep Speech 2, section 3.6)."""

import torch
from torch import Tensor, nn

from ds2.model.initial_weights import draw_normal


class RowConvolution(nn.Module):
    """r[t, i] = sum_{j=0..tau} W[i, j] h[t + j, i]: each unit sees its own future, `tau` frames of it."""

    def __init__(self, units: int, tau: int):
        super().__init__()
        self.tau = tau
        self.weight = nn.Parameter(torch.zeros(units, tau + 1))
        draw_normal(self.weight, 0.1 / (tau + 1) ** 0.5)
        with torch.no_grad():
            self.weight[:, 0] += 1.0  # starts as the identity

    def forward(self, h: Tensor) -> Tensor:
        """(B, T, H) with zeros beyond each utterance -> (B, T, H)."""
        return self.step(nn.functional.pad(h, (0, 0, 0, self.tau)))

    def step(self, h: Tensor) -> Tensor:
        """(B, T + tau, H), the future included -> (B, T, H)."""
        rows = nn.functional.conv1d(h.transpose(1, 2), self.weight.unsqueeze(1), groups=len(self.weight))
        return rows.transpose(1, 2)
