"""Augmentation: the same words as other rooms, microphones, channels and speakers would have changed them.

Samples are changed one utterance at a time, seeded by (seed, epoch, index), whatever the number of workers; features
one batch at a time, from the caller's generator. The order is the order of nature: speaker, room, noise, microphone,
channel. What is switched off draws no random numbers, so that it does not change what the rest does.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import Tensor

from ds2.audio.codecs import ChannelName, transmit
from ds2.audio.speed import change_speed
from ds2.audio.tempo import change_tempo
from ds2.audio.tensors import read_audio
from ds2.utils.config import require
from ds2.utils.errors import InputError

logger = logging.getLogger(__name__)

Range = tuple[float, float]
Item = TypeVar("Item")
KNOTS = 6  # of an equaliser's response
MOST_LAYERS = 1_000  # cuts of noise that are summed: any of them is lost in so many
ENERGY_FLOOR = 1e-10  # mean square of what counts as digital silence


@dataclass(frozen=True)
class AugmentConfig:
    """The augmentation of samples and features: probabilities are per utterance, ranges are drawn from uniformly."""

    speed: tuple[float, ...] = (0.9, 1.0, 1.1)  # factors, drawn with equal chance: tempo and pitch together
    tempo: tuple[float, ...] = (1.0,)  # factors, drawn with equal chance: faster or slower at the same pitch
    reverberation_probability: float = 0.0  # of the echo of a room
    reverberation_seconds: Range = (0.1, 0.6)  # until the reverberation has fallen by 60 dB
    impulse_responses: tuple[Path, ...] = ()  # recordings; without any they are synthesised
    noise: tuple[Path, ...] = ()  # noise recordings; without any, noise of random colour is synthesised
    noise_probability: float = 0.4  # the paper's
    # of the noisy utterances, where there are recordings as well
    synthetic_noise_probability: float = 0.5
    noise_layers: tuple[int, int] = (1, 1)  # cuts of recordings that are summed, at the least and at the most
    noise_layer_gain: float = 10.0  # dB: a layer is up to so much softer than the first
    snr: Range = (5.0, 30.0)  # dB
    snr_shape: Literal["uniform", "normal"] = "uniform"  # normal: the range is two deviations to each side
    equalizer_probability: float = 0.0  # of another microphone: random boosts and cuts over frequency
    equalizer_gain: float = 12.0  # dB: largest boost or cut of a band
    channel_probability: float = 0.0  # telephone lines and codecs
    channels: tuple[ChannelName, ...] = ("telephone", "gsm", "mp3", "vorbis")  # drawn with equal chance
    gain: Range = (-10.0, 6.0)  # dB; peaks beyond full scale clip
    frequency_warp: Range = (1.0, 1.0)  # factor on the frequency axis: vocal tract length at the same tempo
    frequency_masks: int = 2  # SpecAugment (Park et al. 2019): bands that are hidden
    frequency_mask_size: float = 0.15  # largest share of the bins that one mask hides
    time_masks: int = 2  # SpecAugment: spans of frames that are hidden
    time_mask_size: float = 0.05  # largest share of the frames that one mask hides

    def __post_init__(self) -> None:
        fractions = [name for name in vars(self) if name.endswith(("_probability", "_mask_size"))]
        require(self, "from 0 to 1", lambda fraction: 0 <= fraction <= 1, *fractions)
        require(self, "from 0.1 to 10", lambda factor: 0.1 <= factor <= 10, "speed", "tempo", "frequency_warp")
        require(self, "from -100 to 100 dB", lambda decibels: abs(decibels) <= 100, "snr", "gain")
        require(self, "from 0 to 100 dB", lambda gain: 0 <= gain <= 100, "noise_layer_gain", "equalizer_gain")
        require(self, "above 0", lambda seconds: seconds > 0, "reverberation_seconds")
        require(self, f"from 1 to {MOST_LAYERS:,}", lambda count: 1 <= count <= MOST_LAYERS, "noise_layers")
        require(self, "0 or more", lambda count: count >= 0, "frequency_masks", "time_masks")
        for name in ("speed", "tempo", "channels"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        for name in ("reverberation_seconds", "noise_layers", "snr", "gain", "frequency_warp"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} = {low, high} must not fall")


class Augmenter:
    """Applies the sample part of an AugmentConfig: speed, tempo, reverberation, noise, equaliser, channel, gain."""

    def __init__(self, config: AugmentConfig, sample_rate: int, seed: int):
        """Reads the recordings of noise and the impulse responses; those that cannot be used are logged and left out.

        Raises:
            InputError: recordings of one kind are named, and none of them can be used.
        """
        self.config = config
        self.sample_rate = sample_rate
        self.seed = seed
        self.noises = _usable(config.noise, sample_rate)
        self.impulse_responses = [direct_first(each) for each in _usable(config.impulse_responses, sample_rate)]

    def __call__(self, samples: Tensor, epoch: int, index: int) -> Tensor:
        """(N,) samples of utterance `index` -> (N',) samples that `epoch` trains on."""
        config = self.config
        generator = seeded_generator(self.seed, epoch, index)
        samples = change_speed(samples, self.sample_rate, _choice(config.speed, generator))
        if config.tempo != (1.0,):
            samples = change_tempo(samples, self.sample_rate, _choice(config.tempo, generator))
        if _chance(config.reverberation_probability, generator):
            samples = self._reverberated(samples, generator)
        if _chance(config.noise_probability, generator):
            noise = self._noise(len(samples), generator)
            samples = add_noise(samples, noise, self._snr(generator))
        if _chance(config.equalizer_probability, generator):
            samples = equalize(samples, config.equalizer_gain, generator)
        if config.channel_probability and _chance(config.channel_probability, generator):
            samples = transmit(samples, self.sample_rate, _choice(config.channels, generator))
        return (samples * _amplitude(_uniform(config.gain, generator))).clamp(-1.0, 1.0)

    def _reverberated(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        if self.impulse_responses:
            return convolve(samples, _choice(self.impulse_responses, generator))
        seconds = _uniform(self.config.reverberation_seconds, generator)
        return reverberate(samples, seconds * self.sample_rate, generator)

    def _snr(self, generator: torch.Generator) -> float:
        low, high = self.config.snr
        if self.config.snr_shape == "uniform":
            return _uniform((low, high), generator)
        return (low + high) / 2 + (high - low) / 4 * float(torch.randn((), generator=generator))

    def _noise(self, size: int, generator: torch.Generator) -> Tensor:
        """(size,) of random places in random recordings, or of synthetic noise."""
        if not self.noises or _chance(self.config.synthetic_noise_probability, generator):
            return coloured_noise(size, _uniform((0.0, 2.0), generator), generator)
        return layered_noise(self.noises, size, self.config.noise_layers, self.config.noise_layer_gain, generator)


def _usable(paths: Sequence[Path], sample_rate: int) -> list[Tensor]:
    recordings, failed = [], []
    for path in paths:
        try:
            recordings.append(_sounding(path, sample_rate))
        except InputError as error:
            failed.append(str(error))
    if failed and not recordings:
        raise InputError(f"{failed[0]}; {len(failed)} recordings to augment with were named, none can be used")
    for reason in failed:
        logger.warning("not augmented with %s", reason)
    return recordings


def _sounding(path: Path, sample_rate: int) -> Tensor:
    samples = read_audio(path, sample_rate)[0]
    if samples.square().max() < ENERGY_FLOOR:
        raise InputError(f"{path}: silence")
    return samples


def seeded_generator(*key: int) -> torch.Generator:
    """Random numbers that depend on the key alone."""
    return torch.Generator().manual_seed(hash(key) & 0x7FFF_FFFF_FFFF_FFFF)


def reverberate(samples: Tensor, decay: float, generator: torch.Generator) -> Tensor:
    """(N,) -> (N,): direct sound and a diffuse tail, noise that falls by 60 dB within `decay` samples."""
    time = torch.arange(1, int(decay) + 1)
    tail = torch.randn(len(time), generator=generator) * torch.exp(-math.log(1000) * time / decay)
    direct_to_tail = _amplitude(_uniform((-3.0, 12.0), generator))
    return convolve(samples, torch.cat([torch.ones(1), tail / tail.norm().clamp(min=1e-6) / direct_to_tail]))


def convolve(samples: Tensor, response: Tensor) -> Tensor:
    """(N,), (R,) -> (N,): samples in a room with this impulse response."""
    size = _fast_size(len(samples) + len(response) - 1)
    spectrum = torch.fft.rfft(samples, size) * torch.fft.rfft(response, size)
    return torch.fft.irfft(spectrum, size)[: len(samples)]


def direct_first(response: Tensor) -> Tensor:
    """(R,) impulse response -> (r,) from its direct sound on, which becomes 1: words stay where they were."""
    peak = int(response.abs().argmax())
    return response[peak:] / response[peak] if response[peak] != 0 else torch.ones(1)


def layered_noise(
    recordings: Sequence[Tensor], size: int, layers: tuple[int, int], gain: float, generator: torch.Generator
) -> Tensor:
    """(size,) summed of cuts from random places of random recordings, looped where they are too short.

    Minutes of recordings make hours that never repeat (Deep Speech, Hannun et al. 2014, section 4.1). Layers beyond
    the first are up to `gain` dB softer than it.
    """
    low, high = layers
    count = low if low == high else low + int(torch.randint(high - low + 1, (), generator=generator))
    noise = _cut_noise(recordings, size, generator)
    for _ in range(count - 1):
        layer = _cut_noise(recordings, size, generator)
        power, layer_power = noise.square().mean(), layer.square().mean().clamp(min=ENERGY_FLOOR)
        noise = noise + layer * (power / layer_power).sqrt() * _amplitude(-_uniform((0.0, gain), generator))
    return noise


def _cut_noise(recordings: Sequence[Tensor], size: int, generator: torch.Generator) -> Tensor:
    noise = _choice(recordings, generator)
    start = int(_uniform((0, len(noise)), generator))
    first = noise[start : start + size]
    if len(first) == size:  # copying all of a long recording would cost more than everything else
        return first
    return torch.cat([first, noise.repeat(math.ceil((size - len(first)) / len(noise)))[: size - len(first)]])


def coloured_noise(size: int, slope: float, generator: torch.Generator) -> Tensor:
    """(size,) Gaussian noise whose power falls as 1 / frequency^slope: 0 white, 1 pink, 2 brown."""
    spectrum = torch.fft.rfft(torch.randn(_fast_size(size), generator=generator))
    frequency = torch.arange(len(spectrum)).clamp(min=1)
    return torch.fft.irfft(spectrum * frequency ** (-slope / 2))[:size]


def add_noise(samples: Tensor, noise: Tensor, snr: float) -> Tensor:
    """(N,), (N,) -> (N,) with `snr` dB between the mean powers; silence, on either side, leaves the samples alone."""
    power, noise_power = samples.square().mean(), noise.square().mean()
    if min(power, noise_power) < ENERGY_FLOOR:
        return samples
    return samples + noise * (power / noise_power).sqrt() / _amplitude(snr)


def equalize(samples: Tensor, largest: float, generator: torch.Generator) -> Tensor:
    """(N,) -> (N,) through a microphone: a smooth random response, up to `largest` dB up or down at each knot."""
    spectrum = torch.fft.rfft(samples, _fast_size(len(samples)))
    decibels = (torch.rand(1, 1, KNOTS, generator=generator) * 2 - 1) * largest
    response = torch.nn.functional.interpolate(decibels, len(spectrum), mode="linear", align_corners=True)
    return torch.fft.irfft(spectrum * 10 ** (response[0, 0] / 20))[: len(samples)]


def augment_features(features: Tensor, lengths: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """(B, F, T) standardised features, (B,) frames -> the same shape, warped, and masked in place."""
    if config.frequency_warp != (1.0, 1.0):
        features = warp_frequency(features, _uniform_each(config.frequency_warp, len(features), generator))
    return mask_features(features, lengths, config, generator)


def warp_frequency(features: Tensor, factors: Tensor) -> Tensor:
    """(B, F, T), (B,) -> (B, F, T): what lay at frequency f now lies at f * factor, linearly interpolated."""
    bins = features.shape[1]
    source = (torch.arange(bins) / factors.unsqueeze(1)).clamp(max=bins - 1)
    below = source.floor().long().clamp(max=bins - 2)
    weight = (source - below).to(features).unsqueeze(2)
    below = below.to(features.device).unsqueeze(2).expand_as(features)
    return features.gather(1, below).lerp(features.gather(1, below + 1), weight)


def mask_features(features: Tensor, lengths: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """SpecAugment (Park et al. 2019, without time warping): bands and spans of (B, F, T) become 0, the mean."""
    batch, bins, frames = features.shape
    bands, spans = torch.zeros(batch, bins, dtype=torch.bool), torch.zeros(batch, frames, dtype=torch.bool)
    for _ in range(config.frequency_masks):
        bands |= _masked_spans(torch.full((batch,), bins), bins, config.frequency_mask_size, generator)
    for _ in range(config.time_masks):
        spans |= _masked_spans(lengths.cpu(), frames, config.time_mask_size, generator)
    hidden = bands.to(features.device).unsqueeze(2) | spans.to(features.device).unsqueeze(1)
    return features.masked_fill_(hidden, 0.0)


def _masked_spans(lengths: Tensor, size: int, largest: float, generator: torch.Generator) -> Tensor:
    """(B,) -> (B, size) boolean: in each row one span of at most `largest` of its length."""
    width = torch.rand(len(lengths), generator=generator) * largest * lengths
    start = torch.rand(len(lengths), generator=generator) * (lengths - width)
    position = torch.arange(size)
    inside = position >= start.floor().unsqueeze(1)
    return inside & (position < (start.floor() + width.floor()).unsqueeze(1))


def _fast_size(size: int) -> int:
    """The next power of two: transforms of other sizes, primes above all, take up to 50 times as long."""
    return 1 << (max(2, size) - 1).bit_length()


def _chance(probability: float, generator: torch.Generator) -> bool:
    return float(torch.rand((), generator=generator)) < probability


def _uniform(bounds: Range, generator: torch.Generator) -> float:
    low, high = bounds
    return low + (high - low) * float(torch.rand((), generator=generator))


def _uniform_each(bounds: Range, size: int, generator: torch.Generator) -> Tensor:
    low, high = bounds
    return low + (high - low) * torch.rand(size, generator=generator)


def _choice(items: Sequence[Item], generator: torch.Generator) -> Item:
    return items[int(torch.randint(len(items), (), generator=generator))]


def _amplitude(decibels: float) -> float:
    return 10.0 ** (decibels / 20.0)
