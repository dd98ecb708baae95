"""Recurrent layers with sequence-wise BN on the input term (Deep Speech 2, sections 3.2 and 3.3)."""

import torch
from torch import Tensor, nn

from ds2.model.frontend import valid_mask
from ds2.model.normalization import FoldedBatchNorm, Unnormalized, input_moments

GATES = 3  # GRU: reset, update, candidate


class GRUDirection(nn.Module):
    """One direction of a GRU whose input term is batch-normalised, on torch's fused kernel.

        r, z = sigmoid(BN(W x_t) + U h_{t-1});  n = tanh(BN(W_n x_t) + r * (U_n h_{t-1} + c_n));
        h_t = (1 - z) * n + z * h_{t-1}

    The BN is folded into W (normalization.FoldedBatchNorm), so it costs no pass over time of its own. The candidate
    keeps tanh, as the fused kernels have it, where the paper's simple RNN uses the clipped ReLU.
    """

    def __init__(self, inputs: int, hidden: int, batch_norm: bool):
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(GATES * hidden, inputs))
        self.recurrent_weight = nn.Parameter(torch.empty(GATES * hidden, hidden))
        self.recurrent_bias = nn.Parameter(torch.zeros(GATES * hidden))
        self.norm = FoldedBatchNorm(GATES * hidden) if batch_norm else Unnormalized(GATES * hidden)
        nn.init.xavier_uniform_(self.input_weight)
        for gate in self.recurrent_weight.chunk(GATES):
            nn.init.orthogonal_(gate)

    def forward(self, x: Tensor, moments: tuple[Tensor, Tensor, Tensor] | None) -> Tensor:
        """(B, T, D), moments of x in training -> (B, T, H)."""
        weight, bias = self.norm(self.input_weight, moments)
        parameters = (weight, self.recurrent_weight, bias, self.recurrent_bias)
        start = x.new_zeros(1, x.shape[0], self.recurrent_weight.shape[1])
        output, _ = torch.gru(x, start, parameters, True, 1, 0.0, self.training, False, True)
        return output


def reverse_valid(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, D): turns the first `lengths` frames of each utterance round; the padding stays behind them."""
    positions = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - positions
    positions = torch.where(mirrored >= 0, mirrored, positions)
    return x.gather(1, positions.unsqueeze(2).expand_as(x))


class BidirectionalGRU(nn.Module):
    """Two directions over the same input, SUMMED (equation 3 of the paper)."""

    def __init__(self, inputs: int, hidden: int, batch_norm: bool):
        super().__init__()
        self.forwards = GRUDirection(inputs, hidden, batch_norm)
        self.backwards = GRUDirection(inputs, hidden, batch_norm)
        self.batch_norm = batch_norm

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, H), zero behind each utterance."""
        valid = valid_mask(lengths, x.shape[1])
        moments = input_moments(x, valid) if self.training and self.batch_norm else None
        backward = reverse_valid(self.backwards(reverse_valid(x, lengths), moments), lengths)
        return torch.where(valid.unsqueeze(2), self.forwards(x, moments) + backward, 0.0)
