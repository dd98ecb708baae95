"""Front end: samples -> log-spectrogram features (Deep Speech 2, section 3: power-normalised audio, 20 ms / 10 ms)."""

import functools
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ds2.model.config import POWER_FLOOR, PRIOR_SECONDS, SILENCE, FrontendConfig
from ds2.utils.mel import mel_bands

CACHED = 1 << 19  # values: larger batches are processed one utterance at a time, which fits a core's cache


def valid_mask(lengths: Tensor, size: int) -> Tensor:
    """(B,) lengths -> (B, size) boolean, True where a position belongs to the utterance."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


@functools.cache
def _mel_bands(config: FrontendConfig, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(linear bins, F) weights, brought to a device once: a CUDA graph holds no copy from the host."""
    with torch.inference_mode(False):  # the first call may be of recognition, the next one of training
        bands = mel_bands(config.mel_bins, config.linear_bins, config.sample_rate)
        return torch.from_numpy(bands).to(device, dtype)


class Level(NamedTuple):
    """Of each of (B, T) frames, in float64.

    Attributes:
        squares: mean square of its samples.
        sounding: 1, or 0 where it is digital silence, which tells nothing of a voice and its room.
        number: of the sounding frames of the stream up to it.
    """

    squares: Tensor
    sounding: Tensor
    number: Tensor


class Frontend(nn.Module):
    """Samples -> standardised log-power spectrogram.

        samples  ->  Hann window, 20 ms every 10 ms  ->  |FFT|^2 / window energy / power  ->  log  ->  (x - mean) / std

    White noise has the expected power 1 in every bin, whatever the rate or the window. No frame reaches beyond the
    samples, so padding after an utterance never changes its features.

    The power is that of the whole utterance; or, in a model for live streams, the mean over the frames up to the
    present one and one second at the training set's power: known at once, the same live and offline, and closer and
    closer to the speaker's power. Frames of digital silence do not count.

    The bins are linear or, with `mel_bins`, bands of the mel scale. `mean` and `std` (F,) are statistics of the
    training set (`set_statistics`); `config.mean` says whether an utterance is first moved by its own mean.
    """

    mean: Tensor
    std: Tensor
    prior_power: Tensor

    def __init__(self, config: FrontendConfig):
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.zeros(config.bins))
        self.register_buffer("std", torch.ones(config.bins))
        if config.power == "adaptive":
            self.register_buffer("prior_power", torch.tensor(1e-2))  # mean square of the training set's samples

    def frames(self, sample_lengths: Tensor) -> Tensor:
        """(B,) samples -> (B,) frames. At least one: an utterance shorter than a window is padded to one window."""
        after_first = sample_lengths - self.config.window_samples
        return after_first.clamp(min=0) // self.config.hop_samples + 1

    def log_spectrogram(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) float samples, (B,) lengths -> (B, F, T) natural log of power, (B,) frames; not yet standardised."""
        samples = torch.where(valid_mask(sample_lengths, samples.shape[1]), samples, 0.0)
        frames = self._framed(samples)
        power = self._power(samples, sample_lengths, self._level_if_adaptive(frames))
        return self.log_frames(frames, power), self.frames(sample_lengths)

    def _framed(self, samples: Tensor) -> Tensor:
        """(B, N) samples -> (B, T, window) frames."""
        window, hop = self.config.window_samples, self.config.hop_samples
        return nn.functional.pad(samples, (0, max(0, window - samples.shape[1]))).unfold(1, window, hop)

    def _power(self, samples: Tensor, sample_lengths: Tensor, level: Level | None) -> Tensor:
        """(B, N) samples, 0 beyond the (B,) lengths, the level of their T frames -> (B, T) or (B, 1) power."""
        if self.config.power == "adaptive":
            assert level is not None
            return self.adaptive_power(level, level.squares.new_zeros(len(samples)))[0]
        return (samples.square().sum(1) / sample_lengths.clamp(min=1)).unsqueeze(1)

    def _level_if_adaptive(self, frames: Tensor) -> Level | None:
        """None where neither power nor mean goes from frame to frame: it would be measured for nothing."""
        adapts = "adaptive" in (self.config.power, self.config.mean)
        return self.level_of_utterances(frames) if adapts else None

    def level_of_utterances(self, frames: Tensor) -> Level:
        """(B, T, window) samples of whole utterances."""
        return self.level(frames, torch.zeros(len(frames), dtype=torch.float64, device=frames.device))

    def level(self, frames: Tensor, before: Tensor) -> Level:
        """(B, T, window) samples, (B,) float64 number of the sounding frames of the stream before them."""
        squares = frames.double().square().mean(2)
        sounding = (squares > SILENCE**2).double()
        return Level(squares, sounding, before.unsqueeze(1) + sounding.cumsum(1))

    def adaptive_power(self, level: Level, power_sum: Tensor) -> tuple[Tensor, Tensor]:
        """Mean square of all sounding frames of a stream up to each one, mixed with the training set's.

        Args:
            level: of (B, T) frames.
            power_sum: (B,) float64, sum of the mean squares of the frames before.

        Returns:
            (B, T) power, (B, T) float64 sums up to each frame.
        """
        sums = power_sum.unsqueeze(1) + level.squares.cumsum(1)
        prior = PRIOR_SECONDS / self.config.hop_seconds
        return ((prior * self.prior_power + sums) / (prior + level.number)).to(self.mean.dtype), sums

    def log_frames(self, frames: Tensor, power: Tensor) -> Tensor:
        """(B, T, window) samples, (B, T) or (B, 1) power -> (B, F, T) natural log of power, not yet standardised."""
        window = torch.hann_window(frames.shape[2], periodic=False, dtype=frames.dtype, device=frames.device)
        spectrum = torch.fft.rfft(frames * (window / window.norm()), self.config.fft_samples)
        energy = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
        if self.config.mel_bins:
            energy = energy @ _mel_bands(self.config, energy.device, energy.dtype)
        scale = torch.where(power > SILENCE**2, power, 1.0).reciprocal().unsqueeze(2)
        return torch.addcmul(energy.new_full((), POWER_FLOOR), energy, scale).log().transpose(1, 2)

    def centred(self, features: Tensor, lengths: Tensor, level: Level | None) -> Tensor:
        """(B, F, T) log power, (B,) frames, their level -> the same, moved so that the mean of each bin is the training
        set's.

        The mean is that of the utterance (cepstral mean normalisation): a voice and a microphone become an average one.
        """
        if self.config.mean == "training":
            return features
        if self.config.mean == "adaptive":
            assert level is not None
            sums = torch.zeros(features.shape[:2], dtype=torch.float64, device=features.device)
            return self.adaptively_centred(features, level, sums)[0]
        own = torch.where(valid_mask(lengths, features.shape[2]).unsqueeze(1), features, 0.0)
        mean = own.sum(2) / lengths.clamp(min=1).unsqueeze(1)
        return features + (self.mean - mean).unsqueeze(2)

    def adaptively_centred(self, features: Tensor, level: Level, sums: Tensor) -> tuple[Tensor, Tensor]:
        """`centred` by the mean of all sounding frames of a stream up to each one, mixed with the training set's.

        Args:
            features: (B, F, T) log power.
            level: of these frames.
            sums: (B, F) float64, over the sounding frames before.

        Returns:
            (B, F, T) features, (B, F) sums after the last frame.
        """
        sums = sums.unsqueeze(2) + (features * level.sounding.unsqueeze(1)).cumsum(2)
        prior = PRIOR_SECONDS / self.config.hop_seconds
        mean = (sums + prior * self.mean.double().unsqueeze(1)) / (prior + level.number.unsqueeze(1))
        return features + (self.mean.unsqueeze(1) - mean.to(features.dtype)), sums[:, :, -1]

    def standardised(self, features: Tensor) -> Tensor:
        """(B, F, T) -> (B, F, T) by the training set's mean and deviation."""
        scale = self.std.reciprocal()
        return torch.addcmul((-self.mean * scale).unsqueeze(1), features, scale.unsqueeze(1))

    def forward(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) float samples in [-1, 1], (B,) lengths -> (B, F, T) features, 0 beyond each utterance, (B,) frames."""
        lengths = self.frames(sample_lengths)
        if 2 * samples.numel() > CACHED and samples.device.type == "cpu":
            return self._one_by_one(samples, sample_lengths, lengths), lengths
        samples = torch.where(valid_mask(sample_lengths, samples.shape[1]), samples, 0.0)
        features = self._features(samples, sample_lengths, lengths)
        valid = valid_mask(lengths, features.shape[2]).unsqueeze(1)
        return torch.where(valid, features, 0.0), lengths

    def _one_by_one(self, samples: Tensor, sample_lengths: Tensor, lengths: Tensor) -> Tensor:
        """`forward`, an utterance at a time: a pass over tens of megabytes costs more than all the arithmetic."""
        frames = int(self.frames(torch.tensor(samples.shape[1])))
        features = samples.new_zeros(len(samples), frames, self.config.bins)
        for number, (count, length) in enumerate(zip(sample_lengths.tolist(), lengths.tolist(), strict=True)):
            one = slice(number, number + 1)
            found = self._features(samples[one, :count], sample_lengths[one], lengths[one])
            features[number, :length] = found[0].T
        return features.transpose(1, 2)

    def _features(self, samples: Tensor, sample_lengths: Tensor, lengths: Tensor) -> Tensor:
        """(B, N) samples, 0 beyond the (B,) lengths, (B,) frames -> (B, F, T), standardised."""
        frames = self._framed(samples)
        level = self._level_if_adaptive(frames)
        found = self.log_frames(frames, self._power(samples, sample_lengths, level))
        return self.standardised(self.centred(found, lengths, level))

    def set_statistics(self, mean: Tensor, std: Tensor) -> None:
        """Standardises by the (F,) mean and deviation of the training set's log-power; deviations are at least 1.

        A bin that varies by less than a neper holds no speech: above 4 kHz in recordings that were upsampled from
        8 kHz it stays at the floor, and the noise that augmentation adds there must not become features of thousands.
        """
        self.mean.copy_(mean)
        self.std.copy_(std.clamp(min=1.0))

    def set_prior(self, power: float) -> None:
        """Adaptive normalisation: the mean square of the training set's samples."""
        self.prior_power.fill_(power)
