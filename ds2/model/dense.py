"""The fully connected layer between the recurrent stack and the output (Deep Speech 2, section 3.1)."""

import torch
from torch import Tensor, nn

from ds2.model.activation import clipped_relu
from ds2.model.frontend import valid_mask
from ds2.model.normalization import FoldedBatchNorm, MinibatchStatistics, Unnormalized, input_moments


class FullyConnected(MinibatchStatistics):
    """clipped_relu(BN(W h)), frame by frame."""

    def __init__(self, inputs: int, units: int, batch_norm: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(units, inputs))
        self.norm = FoldedBatchNorm(units) if batch_norm else Unnormalized(units)
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")

    def forward(self, h: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, H), (B,) -> (B, T, U)."""
        normalised = self.training and isinstance(self.norm, FoldedBatchNorm)
        moments = input_moments(h, valid_mask(lengths, h.shape[1]), self.total) if normalised else None
        return clipped_relu(nn.functional.linear(h, *self.norm(self.weight, moments)))
