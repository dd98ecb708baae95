"""The front end as ds2/model/frontend.py defines it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import POWER_FLOOR, PRIOR_SECONDS, SILENCE, FrontendConfig
from ds2.model.native.slots import SlotBatch
from ds2.utils.mel import mel_bands

FRAMES = 256  # whose spectra are computed at once


class LevelArrays(NamedTuple):
    """Of (B, T) frames, in float64; see `Frontend.level`."""

    squares: np.ndarray
    sounding: np.ndarray
    number: np.ndarray


class NativeFrontend:
    """Samples -> standardised log-power spectrogram."""

    def __init__(self, config: FrontendConfig, layer: LayerWeights):
        self.config, self.mean, self.std = config, *(layer.shaped(name, config.bins) for name in ("mean", "std"))
        if config.power == "adaptive":
            self.prior_power = float(layer.shaped("prior_power"))
        hann = np.hanning(config.window_samples)
        self.window = (hann / np.linalg.norm(hann)).astype(np.float32)
        self.bands = mel_bands(config.mel_bins, config.linear_bins, config.sample_rate) if config.mel_bins else None
        self.prior = PRIOR_SECONDS / config.hop_seconds

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """(N,) of an utterance -> (1, T, F) features."""
        missing = max(0, self.config.window_samples - len(samples))
        frames = self._framed(np.pad(samples, (0, missing))[None])
        adapts = "adaptive" in (self.config.power, self.config.mean)
        level = self._level(frames, np.zeros(1)) if adapts else None
        if self.config.power == "adaptive":
            assert level is not None
            power, _ = self._adaptive_power(level, np.zeros(1))
        else:
            power = np.full((1, 1), np.dot(samples, samples) / max(1, len(samples)), np.float32)
        features = self._log_power(frames, power)
        if self.config.mean == "adaptive":
            assert level is not None
            features, _ = self._adaptively_centred(features, level, np.zeros((1, self.config.bins)))
        elif self.config.mean == "utterance":
            features += self.mean - features.mean(1, keepdims=True)
        return self._standardised(features)

    def step(self, batch: SlotBatch, samples: np.ndarray) -> np.ndarray:
        """(B, N) of a chunk of each stream -> (B, T, F) features, going on from the sums over the sound before."""
        frames = self._framed(samples)
        level = self._level(frames, batch.kept("sounding", (), np.float64))
        batch.keep("sounding", level.number[:, -1])
        power, sums = self._adaptive_power(level, batch.kept("power_sum", (), np.float64))
        batch.keep("power_sum", sums[:, -1])
        features = self._log_power(frames, power)
        if self.config.mean == "adaptive":
            before = batch.kept("feature_sum", (self.config.bins,), np.float64)
            features, feature_sums = self._adaptively_centred(features, level, before)
            batch.keep("feature_sum", feature_sums[:, -1])
        return self._standardised(features)

    def _framed(self, samples: np.ndarray) -> np.ndarray:
        """(B, N) -> (B, T, window), a view."""
        return np.lib.stride_tricks.sliding_window_view(samples, self.config.window_samples, 1)[
            :, :: self.config.hop_samples
        ]

    def _level(self, frames: np.ndarray, before: np.ndarray) -> LevelArrays:
        """(B, T, window) samples, (B,) sounding frames before them."""
        squares = np.concatenate([np.square(part, dtype=np.float64).mean(2) for part in _in_parts(frames)], axis=1)
        sounding = (squares > SILENCE**2).astype(np.float64)
        return LevelArrays(squares, sounding, before[:, None] + sounding.cumsum(1))

    def _adaptive_power(self, level: LevelArrays, power_sum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """LevelArrays, (B,) sum over the frames before -> (B, T) power, (B, T) sums."""
        sums = power_sum[:, None] + level.squares.cumsum(1)
        power = (self.prior * self.prior_power + sums) / (self.prior + level.number)
        return power.astype(np.float32), sums

    def _log_power(self, frames: np.ndarray, power: np.ndarray) -> np.ndarray:
        """(B, T, window) samples, (B, T) or (B, 1) power -> (B, T, F) natural log of power."""
        energy = np.concatenate([self._energy(part) for part in _in_parts(frames)], axis=1)
        scale = 1 / np.where(power > np.float32(SILENCE**2), power, np.float32(1))
        found: np.ndarray = np.log(energy * scale[:, :, None] + np.float32(POWER_FLOOR), dtype=np.float32)
        return found

    def _energy(self, frames: np.ndarray) -> np.ndarray:
        """(B, T, window) samples -> (B, T, F)."""
        spectrum = np.fft.rfft(frames * self.window, self.config.fft_samples)
        energy = np.square(spectrum.real) + np.square(spectrum.imag)
        return energy if self.bands is None else energy @ self.bands

    def _adaptively_centred(
        self, features: np.ndarray, level: LevelArrays, sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(B, T, F) log-power, level, (B, F) sums over the frames before -> the same, centred, (B, T, F) sums."""
        sums = sums[:, None] + (features * level.sounding[:, :, None]).cumsum(1)
        mean = (sums + self.prior * self.mean.astype(np.float64)) / (self.prior + level.number[:, :, None])
        return features + (self.mean - mean.astype(np.float32)), sums

    def _standardised(self, features: np.ndarray) -> np.ndarray:
        return (features - self.mean) / self.std


def _in_parts(frames: np.ndarray) -> Iterator[np.ndarray]:
    """(B, T, window), FRAMES by FRAMES: each sample is in several of them, and their spectra are larger still."""
    return (frames[:, start : start + FRAMES] for start in range(0, frames.shape[1], FRAMES))
