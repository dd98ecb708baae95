"""Recurrent layers with sequence-wise BN on the input term (Deep Speech 2, sections 3.2 and 3.3).

    x (B, T, D) --> Direction, first frame to last ----\\
           \\                                            + --> (B, T, H)      the two are SUMMED
            \\----> Direction, last frame to first -----/

The backward direction reverses only the valid part of each utterance; a forward-only layer has none.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ds2.model import bn_lstm_autograd
from ds2.model.cell_kernels import KERNELS, CellKernels
from ds2.model.cells import CELLS, Cell
from ds2.model.config import CLIP
from ds2.model.frontend import valid_mask
from ds2.model.normalization import (
    FoldedBatchNorm,
    MinibatchStatistics,
    Moments,
    SequenceBatchNorm,
    StepBatchNorm,
    Unnormalized,
    input_moments,
)
from ds2.utils.processor import has_bfloat16

State = tuple[Tensor, ...]  # of each stream, batch first: (B, H) of each part that CELLS names
NOISE = 0.01  # deviation of the first state of a BN-LSTM in training

# cuDNN copies the weights side by side at each call, as they are made anew by folding the normalisation into them.
warnings.filterwarnings("ignore", "RNN module weights", UserWarning)


class BackwardChunks(NamedTuple):
    """How the backward direction is cut.

    The first chunk is shorter by the convolutions' delay in a live stream, which makes the chunks of sound equal.
    """

    size: int  # frames; 0: no cut
    missing: int  # frames that the first chunk lacks


WHOLE = BackwardChunks(0, 0)


class Direction(nn.Module):
    """One direction of a simple RNN, GRU or LSTM whose input term is batch-normalised, on torch's fused kernels.

        rnn    h_t = clipped_relu(BN(W x_t) + U h_{t-1} + c)
        gru    r, z = sigmoid(BN(W x_t) + U h_{t-1});  n = tanh(BN(W_n x_t) + r * (U_n h_{t-1} + c_n));
               h_t = (1 - z) * n + z * h_{t-1}
        lstm   i, f, o = sigmoid(BN(W x_t) + U h_{t-1} + c), g = tanh(the same);
               c_t = f * c_{t-1} + i * g;  h_t = o * tanh(c_t)

    The BN is folded into W (normalization.FoldedBatchNorm), so it costs no extra pass over time. Gates keep tanh, as
    the fused kernels have it. torch's simple RNN has a ReLU without the clip: its result is taken where no state
    exceeds the clip, which makes them equal; otherwise the loop of `recurrent_autograd.rnn` runs. That loop and
    `recurrent_autograd.gru` also train on a CPU.
    """

    def __init__(self, cell: Cell, inputs: int, hidden: int, batch_norm: bool):
        super().__init__()
        self.cell, names = cell, CELLS[cell].gates
        gates = len(names)
        self.input_weight = nn.Parameter(torch.empty(gates * hidden, inputs))
        self.recurrent_weight = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.recurrent_bias = nn.Parameter(torch.zeros(gates * hidden))
        self.norm = FoldedBatchNorm(gates * hidden) if batch_norm else Unnormalized(gates * hidden)
        initialize(self.input_weight, self.recurrent_weight, self.recurrent_bias, names)

    def start(self, streams: int) -> State:
        """The state before the first frame of so many streams: (B, H) zeros."""
        zeros = self.recurrent_bias.new_zeros(streams, self.recurrent_weight.shape[1])
        return (zeros,) * len(CELLS[self.cell].state)

    def forward(self, x: Tensor, lengths: Tensor, moments: Moments | None) -> Tensor:
        """(B, T, D), (B,), moments of x in training -> (B, T, H), arbitrary beyond the lengths."""
        weight, bias = self.norm(self.input_weight, moments)
        start = [part.to(x.dtype) for part in self.start(x.shape[0])]
        if self.training and self.kernels.by_hand and x.device.type == "cpu" and not torch.compiler.is_compiling():
            return self._by_hand(x, weight, bias, start[0])
        inputs = (x, weight, self.recurrent_weight, bias, self.recurrent_bias, *start)
        device = x.device.type
        # Under autocast cuDNN takes float16, whatever is asked for, and oneDNN has no LSTM for a CPU without bfloat16.
        if torch.is_autocast_enabled(device) and (x.is_cuda or not has_bfloat16()):
            kind = torch.get_autocast_dtype(device) if x.is_cuda else torch.float32
            with torch.autocast(device, enabled=False):
                output = self._fused(*(each.to(kind) for each in inputs))
        else:
            output = self._fused(*inputs)
        if self.kernels.unclipped and bool((output > CLIP).any()):
            return self._by_hand(x, weight, bias, start[0])
        return output

    def _fused(self, x: Tensor, *given: Tensor) -> Tensor:
        """(B, T, D), the four parameters and the parts of the first state, (B, H) -> (B, T, H)."""
        parameters, start = given[:4], given[4:]
        # a frozen layer is in eval mode, and may lie above one that learns: cuDNN must keep what its gradient needs
        keep = torch.is_grad_enabled()
        return self.kernels.fused(x, self._first(start), parameters, True, 1, 0.0, keep, False, True)[0]

    @property
    def kernels(self) -> CellKernels:
        """The kernels that train this cell."""
        return KERNELS[self.cell]

    def _first(self, state: Sequence[Tensor]) -> Tensor | list[Tensor]:
        """The state as torch's kernels want it: of one layer; a list where it has several parts."""
        layers = [part.unsqueeze(0) for part in state]
        return layers if len(layers) > 1 else layers[0]

    def _by_hand(self, x: Tensor, weight: Tensor, bias: Tensor, state: Tensor) -> Tensor:
        assert self.kernels.by_hand is not None
        states = self.kernels.by_hand(
            x.transpose(0, 1), weight, bias, state, self.recurrent_weight, self.recurrent_bias
        )
        return states.transpose(0, 1)


class BNLSTMDirection(nn.Module):
    """One direction of a BN-LSTM (Cooijmans et al. 2016): separate statistics for every time step.

        i, f, g, o = BN(U h_{t-1}; gamma_h) + BN(W x_t; gamma_x) + b
        c_t = sigmoid(f) * c_{t-1} + sigmoid(i) * tanh(g);  h_t = sigmoid(o) * tanh(BN(c_t; gamma_c, beta_c))

    With `sequence_input` W x_t has the statistics of whole sequences, padding left out: BN-e* of section 5.4, BN-e**
    in two directions, of which the backward one reverses the valid part of each utterance.

    The statistics of U h_{t-1} are known only when h_{t-1} is, of all utterances: no fused kernel of torch can do that.
    Training on a CPU goes by bn_lstm_autograd, in at most twice the time of an LSTM; elsewhere frame by frame.
    """

    def __init__(self, inputs: int, hidden: int, sequence_input: bool = False):
        super().__init__()
        names = CELLS["bn-lstm"].gates
        gates = len(names)
        self.input_weight = nn.Parameter(torch.empty(gates * hidden, inputs))
        self.recurrent_weight = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(gates * hidden))
        self.input_norm = (SequenceBatchNorm if sequence_input else StepBatchNorm)(gates * hidden)
        self.recurrent_norm = StepBatchNorm(gates * hidden)
        self.cell_norm = StepBatchNorm(hidden)
        self.beta = nn.Parameter(torch.zeros(hidden))  # of the cell
        initialize(self.input_weight, self.recurrent_weight, self.bias, names)

    def start(self, streams: int) -> State:
        """The state before the first frame of so many streams: two of (B, H) zeros, and (B,) frames so far."""
        zeros = self.bias.new_zeros(streams, self.recurrent_weight.shape[1])
        return zeros, zeros, torch.zeros(streams, dtype=torch.long, device=zeros.device)  # the last: frames so far

    def forward(self, x: Tensor, lengths: Tensor, moments: Moments | None) -> Tensor:
        """(B, T, D), (B,) -> (B, T, H)."""
        h, c, frames = self.start(x.shape[0])
        if self.training:  # a constant first state would have no variance
            h = h + NOISE * torch.randn_like(h)
        if self.training and x.device.type == "cpu" and not torch.compiler.is_compiling():
            return self._by_hand(x, lengths, (h, c))
        return self._run(x, lengths, (h, c, frames))

    def _by_hand(self, x: Tensor, lengths: Tensor, start: tuple[Tensor, Tensor]) -> Tensor:
        """Like `_run` of a whole minibatch in training, in a small part of its time."""
        terms = linear(x.transpose(0, 1), self.input_weight).to(start[0].dtype)
        valid = valid_mask(lengths, x.shape[1])
        gamma: Tensor = self.input_norm.gamma
        norms, by_step = [self.recurrent_norm, self.cell_norm], not isinstance(self.input_norm, SequenceBatchNorm)
        if isinstance(self.input_norm, SequenceBatchNorm):
            terms, gamma = self.input_norm.over_sequences(terms, valid.T), torch.ones_like(gamma)
        else:
            norms.insert(0, self.input_norm)
        scales = (gamma, self.recurrent_norm.gamma, self.bias, self.cell_norm.gamma, self.beta)
        states, moments = bn_lstm_autograd.bn_lstm(terms, lengths, start, self.recurrent_weight, by_step, *scales)
        counts = valid.sum(0)
        for norm, (means, variances) in zip(norms, moments, strict=True):
            norm.update(means, variances, counts)
        return states.transpose(0, 1)

    def _run(self, x: Tensor, lengths: Tensor, state: State) -> Tensor:
        """Frame by frame."""
        h, c, frames = state
        valid = valid_mask(lengths, x.shape[1])
        terms, whole = x @ self.input_weight.T, self.training and isinstance(self.input_norm, SequenceBatchNorm)
        if self.training and isinstance(self.input_norm, SequenceBatchNorm):
            terms = self.input_norm.over_sequences(terms, valid)
        states, last = [], None if self.training else self.recurrent_norm.last
        for t in range(x.shape[1]):
            now, steps = valid[:, t], (frames + t).clamp(max=last) if last is not None else frames + t
            recurrent = self.recurrent_norm(h @ self.recurrent_weight.T, now, steps)
            term = terms[:, t] if whole else self.input_norm(terms[:, t], now, steps)
            gates = recurrent + term + self.bias
            i, f, g, o = gates.chunk(4, dim=1)
            next_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            next_h = o.sigmoid() * (self.cell_norm(next_c, now, steps) + self.beta).tanh()
            h, c = torch.where(now.unsqueeze(1), next_h, h), torch.where(now.unsqueeze(1), next_c, c)
            states.append(next_h)
        return torch.stack(states, 1)


def initialize(input_weight: Tensor, recurrent_weight: Tensor, bias: Tensor, gates: Sequence[str]) -> None:
    """(G H, D), (G H, H) and (G H,) of the `gates`, one below the other; the bias is 0 before."""
    nn.init.xavier_uniform_(input_weight)
    for gate in recurrent_weight.chunk(len(gates)):
        nn.init.orthogonal_(gate)
    for name, gate in zip(gates, bias.chunk(len(gates)), strict=True):
        if name == "f":
            nn.init.ones_(gate)  # forget nothing at first


def reverse_valid(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, D): reverses the first `lengths` frames of each utterance; the padding stays after them."""
    positions = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - positions
    positions = torch.where(mirrored >= 0, mirrored, positions)
    rows = positions + x.shape[1] * torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    return x.flatten(0, 1).index_select(0, rows.flatten()).view_as(x)  # ten times as fast as gather


class RecurrentLayer(MinibatchStatistics):
    """A forward direction and, if bidirectional, a backward one over the same input, summed (equation 3).

    With `chunks` the backward direction begins anew at the end of every chunk, so that a live stream need not wait for
    the end of the utterance (Chen and Huo 2016, "Training deep bidirectional LSTM acoustic model for LVCSR by a
    context-sensitive-chunk BPTT approach").
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        hidden: int,
        batch_norm: bool,
        bidirectional: bool,
        chunks: BackwardChunks = WHOLE,
    ):
        super().__init__()

        def direction() -> Direction | BNLSTMDirection:
            if CELLS[cell].step_statistics:
                return BNLSTMDirection(inputs, hidden, CELLS[cell].sequence_input)
            return Direction(cell, inputs, hidden, batch_norm)

        self.forwards = direction()
        self.backwards = direction() if bidirectional else None
        self.needs_moments = batch_norm and not CELLS[cell].step_statistics
        self.chunks = chunks

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, H), zero beyond each utterance."""
        valid = valid_mask(lengths, x.shape[1])
        moments = input_moments(x, valid, self.total) if self.training and self.needs_moments else None
        result = self.forwards(x, lengths, moments)
        if self.backwards is not None:
            result = result + (self._in_chunks if self.chunks.size else self.from_the_end)(x, lengths, moments)
        return torch.where(valid.unsqueeze(2), result, 0.0)

    def from_the_end(self, x: Tensor, lengths: Tensor, moments: Moments | None) -> Tensor:
        """(B, T, D), (B,) -> (B, T, H) of the backward direction."""
        assert self.backwards is not None
        return reverse_valid(self.backwards(reverse_valid(x, lengths), lengths, moments), lengths)

    def _in_chunks(self, x: Tensor, lengths: Tensor, moments: Moments | None) -> Tensor:
        """(B, T, D), (B,) -> (B, T, H) of the backward direction, each chunk as an utterance of its own."""
        size, missing = self.chunks
        count = -(-(x.shape[1] + missing) // size)
        after = count * size - missing - x.shape[1]
        rows = nn.functional.pad(x, (0, 0, missing, after)).reshape(-1, size, x.shape[2])
        starts = size * torch.arange(count, device=x.device)
        sizes = (lengths.unsqueeze(1) + missing - starts).clamp(0, size).flatten()
        result = self.from_the_end(rows, sizes, moments)
        return result.reshape(x.shape[0], -1, result.shape[2])[:, missing : missing + x.shape[1]]
