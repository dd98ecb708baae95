"""Channels: what telephone lines and codecs leave of a sound."""

import io
from dataclasses import dataclass
from typing import Literal

import soundfile
import torch
from torch import Tensor

from ds2.audio.tensors import resample

ChannelName = Literal["narrow", "telephone", "mu-law", "a-law", "gsm", "adpcm", "mp3", "vorbis", "opus"]


@dataclass(frozen=True)
class Channel:
    """A way of transmission.

    Attributes:
        sample_rate: Hz; None: that of the sound.
        form: container and coding of libsndfile; None: samples are not encoded.
        compression: 0 to 1, the hardest, for codings that have a choice.
        band: lowest and highest frequency in Hz that it lets pass; None: all.
    """

    sample_rate: int | None = None
    form: tuple[str, str] | None = None
    compression: float | None = None
    band: tuple[float, float] | None = None


TELEPHONE_BAND = (300.0, 3400.0)  # ITU-T G.712
CHANNELS: dict[str, Channel] = {
    "narrow": Channel(8000),
    "telephone": Channel(8000, ("WAV", "ULAW"), band=TELEPHONE_BAND),
    "mu-law": Channel(8000, ("WAV", "ULAW")),
    "a-law": Channel(8000, ("WAV", "ALAW")),
    "gsm": Channel(8000, ("WAV", "GSM610")),
    "adpcm": Channel(8000, ("WAV", "IMA_ADPCM")),
    "mp3": Channel(None, ("MP3", "MPEG_LAYER_III"), 0.9),
    "vorbis": Channel(None, ("OGG", "VORBIS"), 0.9),
    "opus": Channel(16000, ("OGG", "OPUS"), 0.9),
}


def transmit(samples: Tensor, sample_rate: int, name: ChannelName) -> Tensor:
    """(N,) -> (N,) in the same place and at the same rate, as it comes out of the channel."""
    channel = CHANNELS[name]
    rate = min(sample_rate, channel.sample_rate or sample_rate)
    sent = resample(samples, sample_rate, rate)
    if channel.band is not None:
        sent = _pass_band(sent, rate, channel.band)
    if channel.form is not None:
        sent = _coded(sent.clamp(-1.0, 1.0), channel.sample_rate or rate, channel.form, channel.compression)
    received = resample(sent, rate, sample_rate)
    return torch.nn.functional.pad(received, (0, max(0, len(samples) - len(received))))[: len(samples)]


def _coded(samples: Tensor, rate: int, form: tuple[str, str], compression: float | None) -> Tensor:
    """(N,) samples after encoding and decoding in memory; libsndfile removes the codecs' delays."""
    buffer = io.BytesIO()
    container, coding = form
    soundfile.write(buffer, samples.numpy(), rate, format=container, subtype=coding, compression_level=compression)
    buffer.seek(0)
    return torch.from_numpy(soundfile.read(buffer, dtype="float32")[0])


def _pass_band(samples: Tensor, rate: int, band: tuple[float, float]) -> Tensor:
    """(N,) -> (N,) without what lies outside of the band (Hz); each edge is half an octave wide."""
    spectrum = torch.fft.rfft(samples)
    frequency = torch.linspace(0, rate / 2, len(spectrum))
    low, high = ((frequency / band[0]).clamp(min=1e-6).log2(), (band[1] / frequency.clamp(min=1.0)).log2())
    gain = ((low * 2 + 1).clamp(0, 1) * (high * 2 + 1).clamp(0, 1)) ** 2
    return torch.fft.irfft(spectrum * gain, len(samples))
