"""Sounds without speech, synthesised: a recogniser must find no words in them."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ds2.audio.augment import coloured_noise, seeded_generator

Sound = Callable[[int, int, torch.Generator], Tensor]  # samples, sample rate (Hz), generator -> (N,)
LOUDEST, SOFTEST = -6.0, -45.0  # dB of the peak below full scale
NOTES = [110.0 * 2 ** (step / 12) for octave in range(3) for step in (12 * octave + k for k in (0, 2, 4, 7, 9))]  # Hz
PARTIALS = 6  # of a note


def sounds(seconds: float, sample_rate: int, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Each kind of SOUNDS for `seconds` at a drawn loudness: its name and (N,) samples, full scale 1.0."""
    for number, (name, sound) in enumerate(SOUNDS.items()):
        generator = seeded_generator(seed, number)
        samples = sound(round(seconds * sample_rate), sample_rate, generator)
        loudness = SOFTEST + (LOUDEST - SOFTEST) * float(torch.rand((), generator=generator))
        peak = samples.abs().max().clamp(min=1e-9)
        yield name, samples / peak * 10 ** (loudness / 20) if samples.any() else samples


def silence(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) zeros."""
    return torch.zeros(size)


def coloured(slope: float) -> Sound:
    """Noise whose power falls as 1 / frequency^slope."""
    return lambda size, sample_rate, generator: coloured_noise(size, slope, generator)


def swelling(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) pink noise that swells and fades like wind or traffic."""
    knots = torch.rand(1, 1, max(2, size // sample_rate), generator=generator)
    return coloured_noise(size, 1.0, generator) * torch.nn.functional.interpolate(knots, size, mode="linear")[0, 0]


def hum(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) mains hum with its harmonics, and a little hiss."""
    return _tone(size, sample_rate, 50.0) + 0.05 * coloured_noise(size, 0.0, generator)


def tones(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) pure tones of a second each."""
    pitches = 200.0 * 2 ** (4 * torch.rand(size // sample_rate + 1, generator=generator))
    time = torch.arange(sample_rate) / sample_rate
    return torch.cat([torch.sin(2 * math.pi * pitch * time) for pitch in pitches])[:size]


def melody(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) one plucked note after another."""
    return _music(size, sample_rate, generator, voices=1)


def chords(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) three plucked notes at a time."""
    return _music(size, sample_rate, generator, voices=3)


def knocks(size: int, sample_rate: int, generator: torch.Generator) -> Tensor:
    """(N,) short bursts at irregular times: doors, keys, dishes."""
    samples = 1e-3 * coloured_noise(size, 1.0, generator)
    at = 0
    while (at := at + int(sample_rate * (0.1 + float(torch.rand((), generator=generator))))) < size:
        length = min(size - at, int(sample_rate * 0.08))
        decay = torch.exp(-torch.arange(length) / (0.1 * length))
        samples[at : at + length] += torch.randn(length, generator=generator) * decay
    return samples


SOUNDS: dict[str, Sound] = {
    "silence": silence,
    "white": coloured(0.0),
    "pink": coloured(1.0),
    "brown": coloured(2.0),
    "swelling": swelling,
    "hum": hum,
    "tones": tones,
    "melody": melody,
    "chords": chords,
    "knocks": knocks,
}


def _music(size: int, sample_rate: int, generator: torch.Generator, voices: int) -> Tensor:
    """Notes of a pentatonic scale that fade, `voices` at a time."""
    samples, at = torch.zeros(size), 0
    while at < size:
        length = int(sample_rate * (0.2 + 0.5 * float(torch.rand((), generator=generator))))
        for place in torch.randint(len(NOTES), (voices,), generator=generator).tolist():
            note = _tone(min(2 * length, size - at), sample_rate, NOTES[place])
            samples[at : at + len(note)] += note * torch.exp(-3 * torch.arange(len(note)) / sample_rate)
        at += length
    return samples


def _tone(size: int, sample_rate: int, pitch: float) -> Tensor:
    """A note of `pitch` Hz with its partials, each softer than the one below it."""
    time = torch.arange(size) / sample_rate
    partials = [number for number in range(1, PARTIALS + 1) if number * pitch < sample_rate / 2]
    return torch.stack([torch.sin(2 * math.pi * pitch * number * time) / number**2 for number in partials]).sum(0)
