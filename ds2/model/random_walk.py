"""Convolutional random walk over frames (Bertasius et al. 2016, arXiv 1605.07681): similar frames share posteriors.

    low features (B, T, D) -> P x_t -> |P x_t - P x_{t+r}| in K units, |r| <= R -> 1x1 -> exp -> W (B, T, 2R + 1)
    A = W / row sums;   y' = A y

One step of diffusion; A is trained jointly against "these two frames have the same label", the labels those of the CTC
alignment (`affinity_loss`).
"""

import torch
from torch import Tensor, nn

from ds2.model.frontend import valid_mask

UNITS = 16  # K: of the low-level features that distances are measured in


class RandomWalk(nn.Module):
    """Diffuses frame posteriors among neighbours within `radius` frames."""

    def __init__(self, inputs: int, radius: int):
        super().__init__()
        self.radius = radius
        self.project = nn.Linear(inputs, UNITS, bias=False)
        self.distance = nn.Parameter(torch.full((UNITS,), -1.0 / UNITS))  # similar frames attract
        self.offset = nn.Parameter(torch.linspace(-radius, radius, 2 * radius + 1).abs() * -0.5)  # so do near frames

    def affinities(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, 2R + 1) weights of the frames t - R .. t + R, summing to 1 over the valid ones."""
        low = self.project(features)
        scores = (_frames_around(low, self.radius) - low.unsqueeze(2)).abs() @ self.distance + self.offset
        valid = _frames_around(valid_mask(lengths, low.shape[1]).unsqueeze(2), self.radius).squeeze(3)
        valid = valid | (torch.arange(2 * self.radius + 1, device=low.device) == self.radius)  # itself, in padding too
        return scores.masked_fill(~valid, -torch.inf).softmax(2)

    def forward(self, logits: Tensor, affinities: Tensor) -> Tensor:
        """(B, T, V), (B, T, 2R + 1) -> (B, T, V) log of the diffused posteriors."""
        posteriors = logits.float().softmax(2)
        diffused = torch.einsum("btr,btrv->btv", affinities.float(), _frames_around(posteriors, self.radius))
        return diffused.clamp(min=torch.finfo(torch.float32).tiny).log()


def affinity_loss(affinities: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """(B,) mean over frames of -log of the weight that falls on frames of the same label.

    Args:
        affinities: (B, T, 2R + 1).
        labels: (B, T) numbers of segments: frames of one token, or of one pause, share a number.
        lengths: (B,) frames.
    """
    radius = affinities.shape[2] // 2
    valid = valid_mask(lengths, labels.shape[1])
    numbered = torch.where(valid, labels, -1)
    same = _frames_around(numbered.unsqueeze(2) + 1, radius).squeeze(3) == (numbered + 1).unsqueeze(2)
    mass = (affinities * same).sum(2).clamp(min=1e-6)
    return -(mass.log() * valid).sum(1) / lengths.clamp(min=1)


def _frames_around(x: Tensor, radius: int) -> Tensor:
    """(B, T, D) -> (B, T, 2R + 1, D): of each frame those from `radius` before to `radius` after, 0 beyond the ends."""
    return nn.functional.pad(x, (0, 0, radius, radius)).unfold(1, 2 * radius + 1, 1).transpose(2, 3)
