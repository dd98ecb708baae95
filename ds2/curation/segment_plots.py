"""A segment as a picture: its waveform above its spectrogram."""

import itertools
from pathlib import Path

import numpy as np
import torch

from ds2.data.audio import read_audio
from ds2.utils.files import atomic_write, make_folder

WIDTH, WAVE_HEIGHT, SPECTROGRAM_HEIGHT = 720, 40, 96  # pixels
DECIBELS = 70.0  # below the loudest cell all is black
QUALITY = 75
BACKGROUND, WAVE = (250, 250, 247), (27, 73, 101)


def draw_segment(audio: Path, path: Path) -> None:
    """Draws an audio file into a WebP, unless a picture that is no older lies there."""
    if path.exists() and path.stat().st_mtime_ns >= audio.stat().st_mtime_ns:
        return
    from PIL import Image

    samples, rate = read_audio(audio)
    picture = np.concatenate([waveform(samples.numpy()), spectrogram(samples, rate)])
    make_folder(path.parent)
    with atomic_write(path) as partial:
        Image.fromarray(picture).save(partial, "WEBP", quality=QUALITY, method=2)


def waveform(samples: np.ndarray) -> np.ndarray:
    """(N,) -> (WAVE_HEIGHT, WIDTH, 3) bytes: in each column from the lowest to the highest sample of its time."""
    picture = np.full((WAVE_HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
    edges = np.linspace(0, len(samples), WIDTH + 1).astype(int)
    middle = (WAVE_HEIGHT - 1) / 2
    scale = middle / max(1e-4, float(np.abs(samples).max(initial=0.0)))
    for column, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
        part = samples[start : max(end, start + 1)]
        if len(part):
            top, bottom = round(middle - part.max() * scale), round(middle - part.min() * scale)
            picture[top : bottom + 1, column] = WAVE
    return picture


def spectrogram(samples: torch.Tensor, rate: int) -> np.ndarray:
    """(N,) -> (SPECTROGRAM_HEIGHT, WIDTH, 3) bytes: low frequencies below, 25 ms windows."""
    from matplotlib import colormaps
    from PIL import Image

    size = max(64, round(0.025 * rate))
    padded = torch.nn.functional.pad(samples, (size // 2, size // 2))
    window = torch.hann_window(size)
    power = torch.stft(padded, size, max(1, size // 4), window=window, center=False, return_complex=True).abs().square()
    level = 10 * (power + 1e-10).log10()
    shade = ((level - level.max()) / DECIBELS + 1).clamp(0, 1).flip(0)
    grey = Image.fromarray((255 * shade).byte().numpy()).resize((WIDTH, SPECTROGRAM_HEIGHT), Image.Resampling.BILINEAR)
    colours = (255 * colormaps["magma"](np.arange(256))[:, :3]).astype(np.uint8)
    return np.asarray(colours[np.asarray(grey)])
