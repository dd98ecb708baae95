"""The acoustic model: front end, convolutions, recurrent stack, output layer (Deep Speech 2, figure 1)."""

import itertools
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ds2.model.convolution import Convolution, ConvolutionConfig
from ds2.model.frontend import Frontend, FrontendConfig
from ds2.model.recurrent import BidirectionalGRU


@dataclass(frozen=True)
class ModelConfig:
    """Everything that shapes the model but the number of outputs, which the tokens give."""

    frontend: FrontendConfig = field(default_factory=FrontendConfig)
    convolutions: tuple[ConvolutionConfig, ...] = (
        ConvolutionConfig(32, (41, 11), (2, 2)),
        ConvolutionConfig(32, (21, 11), (2, 1)),
    )
    recurrent_layers: int = 5
    hidden: int = 800  # H: units of a recurrent layer
    batch_norm: bool = True
    dropout: float = 0.0  # share of recurrent outputs dropped in training

    def __post_init__(self) -> None:
        if self.recurrent_layers < 1 or self.hidden < 1:
            raise ValueError(f"recurrent_layers {self.recurrent_layers} and hidden {self.hidden} must be at least 1")

    @property
    def frame_seconds(self) -> float:
        """Seconds of audio per output frame: the hop times the time strides."""
        return self.frontend.hop * math.prod(convolution.stride[1] for convolution in self.convolutions)


class AcousticModel(nn.Module):
    """Samples -> log-probabilities of the tokens, blank first.

    (B, N) -> frontend (B, F, T) -> convolutions (B, C, F', T') -> (B, T', C * F') -> GRUs (B, T', H) -> (B, T', V)
    """

    def __init__(self, config: ModelConfig, outputs: int):
        super().__init__()
        self.config = config
        self.frontend = Frontend(config.frontend)
        self.convolutions = nn.ModuleList()
        channels, bins = 1, config.frontend.bins
        for convolution in config.convolutions:
            self.convolutions.append(Convolution(channels, convolution, config.batch_norm))
            channels, bins = convolution.channels, math.ceil(bins / convolution.stride[0])
        sizes = [channels * bins] + [config.hidden] * config.recurrent_layers
        self.recurrent = nn.ModuleList(
            BidirectionalGRU(inputs, hidden, config.batch_norm) for inputs, hidden in itertools.pairwise(sizes)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden, outputs)

    def logits(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, T) features, (B,) frames -> (B, T', V) unnormalised scores, (B,) output frames."""
        x = features.unsqueeze(1)
        for convolution in self.convolutions:
            x, lengths = convolution(x, lengths)
        x = x.flatten(1, 2).transpose(1, 2)
        for recurrent in self.recurrent:
            x = self.dropout(recurrent(x, lengths))
        return self.output(x), lengths

    def forward(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) samples at `config.frontend.sample_rate`, (B,) -> (B, T', V) log_probs in float32, (B,) frames."""
        logits, lengths = self.logits(*self.frontend(samples, sample_lengths))
        return torch.log_softmax(logits.float(), dim=2), lengths
