"""Front end: samples -> log-spectrogram features (Deep Speech 2, section 3: power-normalised audio, 20 ms / 10 ms)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

POWER_FLOOR = 1e-5  # of the mean power of the utterance (-50 dB): what lies below is codec and converter noise
SILENCE = 1e-5  # RMS below which samples are left as they are: 16-bit rounding alone has 9e-6


@dataclass(frozen=True)
class FrontendConfig:
    """The spectrogram."""

    sample_rate: int = 16000  # Hz
    window: float = 0.020  # seconds
    hop: float = 0.010  # seconds

    @property
    def window_samples(self) -> int:
        return round(self.window * self.sample_rate)

    @property
    def hop_samples(self) -> int:
        return round(self.hop * self.sample_rate)

    @property
    def bins(self) -> int:
        """F: linear frequency bins from 0 Hz to half the sample rate (161 at 16 kHz)."""
        return self.window_samples // 2 + 1


def valid_mask(lengths: Tensor, size: int) -> Tensor:
    """(B,) lengths -> (B, size) boolean, True where a position belongs to the utterance."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


class Frontend(nn.Module):
    """Samples -> standardised log-power spectrogram.

        samples / RMS  ->  Hann window, 20 ms every 10 ms  ->  |FFT|^2 / window energy  ->  log  ->  (x - mean) / std

    White noise has the expected power 1 in every bin, whatever the rate or the window. No frame reaches beyond the
    samples, so padding behind an utterance never changes its features.

    `mean` and `std` (F,) are statistics of the training set (`set_statistics`), not of the utterance: one spoken
    word keeps its colour, and a stream can be normalised before its end is known.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, config: FrontendConfig):
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.zeros(config.bins))
        self.register_buffer("std", torch.ones(config.bins))

    def frames(self, sample_lengths: Tensor) -> Tensor:
        """(B,) samples -> (B,) frames. At least one: an utterance shorter than a window is padded to one window."""
        after_first = sample_lengths - self.config.window_samples
        return after_first.clamp(min=0) // self.config.hop_samples + 1

    def log_spectrogram(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) float samples, (B,) lengths -> (B, F, T) natural log of power, (B,) frames; not yet standardised."""
        valid = valid_mask(sample_lengths, samples.shape[1])
        samples = torch.where(valid, samples, 0.0)
        power = samples.square().sum(1) / sample_lengths.clamp(min=1)
        rms = power.sqrt().unsqueeze(1)
        samples = torch.where(rms > SILENCE, samples / rms.clamp(min=SILENCE), samples)
        window, hop = self.config.window_samples, self.config.hop_samples
        samples = nn.functional.pad(samples, (0, max(0, window - samples.shape[1])))
        hann = torch.hann_window(window, periodic=False, dtype=samples.dtype, device=samples.device)
        spectrum = torch.fft.rfft(samples.unfold(1, window, hop) * (hann / hann.norm()))
        features = (spectrum.real.square() + spectrum.imag.square() + POWER_FLOOR).log()
        return features.transpose(1, 2), self.frames(sample_lengths)

    def forward(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) float samples in [-1, 1], (B,) lengths -> (B, F, T) features, 0 behind each utterance, (B,) frames."""
        features, lengths = self.log_spectrogram(samples, sample_lengths)
        features = (features - self.mean.unsqueeze(1)) / self.std.unsqueeze(1)
        valid = valid_mask(lengths, features.shape[2]).unsqueeze(1)
        return torch.where(valid, features, 0.0), lengths

    def set_statistics(self, mean: Tensor, std: Tensor) -> None:
        """Standardises by the (F,) mean and deviation of the training set's log-power."""
        self.mean.copy_(mean)
        self.std.copy_(std.clamp(min=1e-3))
