"""Front end: samples -> log-spectrogram features (Deep Speech 2, section 3: power-normalised audio, 20 ms / 10 ms)."""

import functools

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


class Frontend(nn.Module):
    """Samples -> standardised log-power spectrogram.

        samples  ->  Hann window, 20 ms every 10 ms  ->  |FFT|^2 / window energy / power  ->  log  ->  (x - mean) / std

    White noise has the expected power 1 in every bin, whatever the rate or the window. No frame reaches beyond the
    samples, so padding after an utterance never changes its features.

    The power is that of the whole utterance; or, in a model for live streams, the mean over the frames up to the
    present one and one second at the training set's power: known at once, the same live and offline, and closer and
    closer to the speaker's power.

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
        return self.log_frames(*self._framed(samples, sample_lengths)), self.frames(sample_lengths)

    def _framed(self, samples: Tensor, sample_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) samples, 0 beyond the (B,) lengths -> (B, T, window) frames, (B, T) or (B, 1) power of them."""
        window, hop = self.config.window_samples, self.config.hop_samples
        frames = nn.functional.pad(samples, (0, max(0, window - samples.shape[1]))).unfold(1, window, hop)
        if self.config.power == "adaptive":
            power_sum = torch.zeros(len(samples), dtype=torch.float64, device=samples.device)
            power, _ = self.adaptive_power(frames, power_sum, torch.zeros_like(power_sum))
        else:
            power = (samples.square().sum(1) / sample_lengths.clamp(min=1)).unsqueeze(1)
        return frames, power

    def adaptive_power(self, frames: Tensor, power_sum: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Mean square of all frames of a stream up to each one, mixed with the training set's.

        Args:
            frames: (B, T, window) samples.
            power_sum: (B,) float64, sum of the mean squares of the frames before; count: (B,) their number.

        Returns:
            (B, T) power, (B, T) float64 sums up to each frame.
        """
        sums = power_sum.unsqueeze(1) + frames.double().square().mean(2).cumsum(1)
        prior = PRIOR_SECONDS / self.config.hop_seconds
        number = count.unsqueeze(1) + torch.arange(1, frames.shape[1] + 1, device=frames.device)
        return ((prior * self.prior_power + sums) / (prior + number)).to(frames.dtype), sums

    def log_frames(self, frames: Tensor, power: Tensor) -> Tensor:
        """(B, T, window) samples, (B, T) or (B, 1) power -> (B, F, T) natural log of power, not yet standardised."""
        window = torch.hann_window(frames.shape[2], periodic=False, dtype=frames.dtype, device=frames.device)
        spectrum = torch.fft.rfft(frames * (window / window.norm()), self.config.fft_samples)
        energy = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
        if self.config.mel_bins:
            energy = energy @ _mel_bands(self.config, energy.device, energy.dtype)
        scale = torch.where(power > SILENCE**2, power, 1.0).reciprocal().unsqueeze(2)
        return torch.addcmul(energy.new_full((), POWER_FLOOR), energy, scale).log().transpose(1, 2)

    def centred(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, F, T) log power, (B,) frames -> the same, moved so that the mean of each bin is the training set's.

        The mean is that of the utterance (cepstral mean normalisation): a voice and a microphone become an average one.
        """
        if self.config.mean == "training":
            return features
        if self.config.mean == "adaptive":
            sums = torch.zeros(features.shape[:2], dtype=torch.float64, device=features.device)
            return self.adaptively_centred(features, sums, torch.zeros_like(sums[:, 0]))[0]
        own = torch.where(valid_mask(lengths, features.shape[2]).unsqueeze(1), features, 0.0)
        mean = own.sum(2) / lengths.clamp(min=1).unsqueeze(1)
        return features + (self.mean - mean).unsqueeze(2)

    def adaptively_centred(self, features: Tensor, sums: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """`centred` by the mean of all frames of a stream up to each one, mixed with the training set's.

        Args:
            features: (B, F, T) log power.
            sums: (B, F) float64, over the frames before; count: (B,) their number.

        Returns:
            (B, F, T) features, (B, F) sums after the last frame.
        """
        sums = sums.unsqueeze(2) + features.double().cumsum(2)
        prior = PRIOR_SECONDS / self.config.hop_seconds
        number = count.view(-1, 1, 1) + torch.arange(1, features.shape[2] + 1, device=features.device)
        mean = (sums + prior * self.mean.double().unsqueeze(1)) / (prior + number)
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
        features = self.standardised(self.centred(self.log_spectrogram(samples, sample_lengths)[0], lengths))
        valid = valid_mask(lengths, features.shape[2]).unsqueeze(1)
        return torch.where(valid, features, 0.0), lengths

    def _one_by_one(self, samples: Tensor, sample_lengths: Tensor, lengths: Tensor) -> Tensor:
        """`forward`, an utterance at a time: a pass over tens of megabytes costs more than all the arithmetic."""
        frames = int(self.frames(torch.tensor(samples.shape[1])))
        features = samples.new_zeros(len(samples), frames, self.config.bins)
        for number, (count, length) in enumerate(zip(sample_lengths.tolist(), lengths.tolist(), strict=True)):
            one = slice(number, number + 1)
            found = self.log_frames(*self._framed(samples[one, :count], sample_lengths[one]))
            features[number, :length] = self.standardised(self.centred(found, lengths[one]))[0].T
        return features.transpose(1, 2)

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
