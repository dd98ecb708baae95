"""The acoustic model: front end, convolutions, recurrent stack, output layer (Deep Speech 2, figure 1)."""

import itertools
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ds2.model.biphones import Biphones
from ds2.model.config import ModelConfig
from ds2.model.convolution import Convolution
from ds2.model.dense import FullyConnected
from ds2.model.frontend import Frontend
from ds2.model.gate import ChannelGate
from ds2.model.lookahead import RowConvolution
from ds2.model.random_walk import RandomWalk
from ds2.model.recurrent import BackwardChunks, RecurrentLayer
from ds2.model.time_delay import TimeDelay


class Output(NamedTuple):
    """The output of the network for a batch, before the softmax."""

    logits: Tensor  # (B, T', V) unnormalised scores
    lengths: Tensor  # (B,) output frames
    affinities: Tensor | None  # (B, T', 2R + 1) affinities of the random walk
    phone_logits: Tensor | None = None  # (B, T', P) scores of the second output layer
    biphones: Tensor | None = None  # (B, T', P - 1, P - 1) what a phone's score loses after each other phone


class AcousticModel(nn.Module):
    """Samples -> log-probabilities of the tokens, blank first.

    (B, N) -> frontend (B, F, T) -> convolutions (B, C, F', T') -> (B, T', C * F') -> recurrent (B, T', H)
    -> lookahead (B, T', H) -> fully connected (B, T', U) -> output (B, T', V) -> random walk (B, T', V)
    """

    def __init__(self, config: ModelConfig, outputs: int):
        super().__init__()
        self.config = config
        self.frontend = Frontend(config.frontend)
        # Each layer takes what the one below gives: channels and bins of the convolutions, then units.
        self.convolutions, self.gates = nn.ModuleList(), nn.ModuleDict()
        channels, bins = 1, config.frontend.bins
        for number, convolution in enumerate(config.convolutions):
            if convolution.bottleneck:
                layer: nn.Module = TimeDelay(channels * bins, convolution, config.dropout)
            else:
                layer = Convolution(channels, bins, convolution, config.batch_norm)
            self.convolutions.append(layer)
            if convolution.gate:
                self.gates[str(number)] = ChannelGate(convolution.channels, convolution.gate)
            channels, bins = convolution.channels, convolution.bins(bins)
        chunks = BackwardChunks(config.chunk, config.waits[-1][1])
        sizes = [channels * bins] + [config.hidden] * config.recurrent_layers
        self.recurrent = nn.ModuleList(
            RecurrentLayer(config.cell, inputs, hidden, config.batch_norm, config.bidirectional, chunks)
            for inputs, hidden in itertools.pairwise(sizes)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.lookahead = RowConvolution(config.width, config.lookahead) if config.lookahead else None
        units = config.fully_connected or config.width
        self.fully_connected = (
            FullyConnected(config.width, units, config.batch_norm) if config.fully_connected else None
        )
        self.output = nn.Linear(units, outputs)
        self.random_walk = RandomWalk(channels * bins, config.random_walk) if config.random_walk else None
        self.phone_output = nn.Linear(config.width, config.phones) if config.phones else None
        self.biphones = Biphones(config.width, config.biphones, config.phones) if config.biphones else None

    def network(self, features: Tensor, lengths: Tensor) -> Output:
        """(B, F, T) features, 0 beyond the (B,) lengths -> unnormalised scores of the tokens."""
        x = features.unsqueeze(1)
        for number, convolution in enumerate(self.convolutions):
            x, lengths = convolution(x, lengths)
            if str(number) in self.gates:
                x = self.gates[str(number)](x)
        low = x = x.flatten(1, 2).transpose(1, 2)
        for recurrent in self.recurrent:
            x = self.dropout(recurrent(x, lengths))
        if self.lookahead is not None:
            x = self.lookahead(x)
        logits, affinities = self.head(x, lengths), None
        if self.random_walk is not None:
            affinities = self.random_walk.affinities(low, lengths)
            logits = self.random_walk(logits, affinities)
        phone_logits = None if self.phone_output is None else self.phone_output(x)
        return Output(logits, lengths, affinities, phone_logits, None if self.biphones is None else self.biphones(x))

    def head(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T', H) -> (B, T', V): the layers that process each frame separately."""
        return self.output(x if self.fully_connected is None else self.fully_connected(x, lengths))

    def log_probs(self, x: Tensor, lengths: Tensor, phones: bool) -> Tensor:
        """(B, T', H) of the last recurrent layer or the row convolution -> (B, T', V), with phones (B, T', V + P + Q).

        For streaming models, which have no random walk.
        """
        logits = self.head(x, lengths)
        if not phones or self.phone_output is None:
            return torch.log_softmax(logits.float(), dim=2)
        return all_scores(logits, self.phone_output(x), None if self.biphones is None else self.biphones(x))

    def all_log_probs(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Like `forward`, but (B, T', V + P + Q): those of the phones and the scores of biphones follow the tokens'."""
        output = self.network(*self.frontend(samples, sample_lengths))
        return all_scores(output.logits, output.phone_logits, output.biphones), output.lengths

    def forward(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) samples at `config.frontend.sample_rate`, (B,) -> (B, T', V) log_probs in float32, (B,) frames."""
        output = self.network(*self.frontend(samples, sample_lengths))
        return torch.log_softmax(output.logits.float(), dim=2), output.lengths


def all_scores(logits: Tensor, phone_logits: Tensor | None, biphones: Tensor | None) -> Tensor:
    """(B, T', V) and (B, T', P) scores, (B, T', P - 1, P - 1) -> (B, T', V + P + Q) log-probabilities of the tokens, of
    the phones, and the Q = (P - 1)^2 scores of biphones, as far as the model has them."""
    parts = [torch.log_softmax(scores.float(), dim=2) for scores in (logits, phone_logits) if scores is not None]
    return torch.cat(parts if biphones is None else [*parts, biphones.flatten(2)], dim=2)
