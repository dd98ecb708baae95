"""The mel scale, on which bands are as wide as the ear's: narrow at low frequencies (Stevens et al. 1937)."""

import functools

import numpy as np


@functools.cache
def mel_bands(bands: int, bins: int, sample_rate: int) -> np.ndarray:
    """(bins, bands) float32 weights of triangles that are equally wide on the mel scale, each of sum 1.

    A triangle is at least two bins wide: at low frequencies the mel scale is finer than a Fourier transform.
    """
    places = mel_edges(bands + 1, sample_rate) / (sample_rate / 2) * (bins - 1)
    centres = places[1:-1]
    rising, falling = np.maximum(centres - places[:-2], 1.0), np.maximum(places[2:] - centres, 1.0)
    distance = np.arange(bins)[:, None] - centres
    weights = np.maximum(1 - np.where(distance < 0, -distance / rising, distance / falling), 0)
    return (weights / weights.sum(0)).astype(np.float32)


def mel_edges(bands: int, sample_rate: int) -> np.ndarray:
    """(bands + 1,) Hz at which so many bands that are equally wide on the mel scale begin and end."""
    highest = 2595 * np.log10(1 + sample_rate / 2 / 700)
    return 700 * (10 ** (np.linspace(0, highest, bands + 1) / 2595) - 1)
