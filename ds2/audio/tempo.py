"""Slower and faster speech at the same pitch."""

import numpy as np
import torch
from torch import Tensor

from ds2.utils.jit import njit

WINDOW = 0.030  # seconds: two periods of a deep voice
SEARCH = 0.010  # seconds to each side: one period
COARSE = 4  # samples between the places tried first


def change_tempo(samples: Tensor, sample_rate: int, factor: float) -> Tensor:
    """(N,) -> (N / factor,): faster for a factor above 1, at the same pitch.

    Waveform-similarity overlap-add (Verhelst and Roelands 1993): windows are taken from the sound every factor * hop,
    each moved within SEARCH to where it best continues the window before it, and added up every hop.

        source   |----a----|            |----b'---|         b' is the place near b that is most like what follows a
        result   |----a----|
                      |----b'---|
    """
    hop = round(WINDOW * sample_rate) // 2
    size = max(1, round(len(samples) / factor))
    if factor == 1.0 or len(samples) < 4 * hop:
        return samples
    search = round(SEARCH * sample_rate)
    padded = np.zeros(len(samples) + 4 * hop + 2 * search, np.float32)
    padded[search : search + len(samples)] = samples.numpy()
    return torch.from_numpy(_overlap_add(padded, size, hop, search, factor))


@njit(nogil=True, fastmath=True)
def _overlap_add(source: np.ndarray, size: int, hop: int, search: int, factor: float) -> np.ndarray:
    """`source` begins with `search` zeros, and ends with room for a window and a search; (size,)."""
    window = 0.5 - 0.5 * np.cos(np.pi * (np.arange(2 * hop).astype(np.float32) + 0.5) / hop)
    result = np.zeros(size + 2 * hop, np.float32)
    place = search
    result[:hop] += source[place : place + hop] * (1 - window[:hop])  # nothing before it to overlap with
    for start in range(0, size, hop):
        last = len(source) - 2 * hop
        if start > 0:
            centre = min(search + int(start * factor), last - search)
            place = _most_alike(source, min(place + hop, last), centre, search, hop)
        for at in range(2 * hop):
            result[start + at] += window[at] * source[place + at]
    return result[:size]


@njit(nogil=True, fastmath=True)
def _most_alike(source: np.ndarray, model: int, centre: int, search: int, hop: int) -> int:
    """The place around `centre` where a window is most like the one at `model`."""
    best = _best_place(source, model, max(0, centre - search), centre + search + 1, COARSE, hop)
    return _best_place(source, model, max(0, best - COARSE + 1), min(best + COARSE, len(source) - 2 * hop), 1, hop)


@njit(nogil=True, fastmath=True)
def _best_place(source: np.ndarray, model: int, first: int, last: int, step: int, hop: int) -> int:
    best, highest = first, np.float32(-np.inf)
    for place in range(first, last, step):
        product, energy = np.float32(0), np.float32(1e-6)
        for at in range(2 * hop):
            product += source[model + at] * source[place + at]
            energy += source[place + at] * source[place + at]
        likeness = product / np.sqrt(energy)
        if likeness > highest:
            best, highest = place, likeness
    return best
