"""How loud a recording is, every 10 ms, beside its noise."""

import itertools

import numpy as np

from ds2.utils.mel import mel_edges

HOP = 0.01  # seconds between levels
BANDS = 16  # of the mel scale
NOISE_AROUND = 1000  # levels on each side of a place that give its noise
NOISE_PERCENTILE = 8.0
CLEAR = 2.0  # times the noise: what a band has beyond it is no noise
LEFT = 0.1  # of the noise that stays
NOTHING = 1e-10  # mean square of digital silence
JOIN = 10  # levels of digital silence between what may come from different microphones
LEAST_PART = 450  # levels of sound that tell of their own noise


def energies(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """(N,) samples -> (T, B) sums of squares of every 10 ms, divided among bands by Parseval's theorem; a recording can
    come in several calls of whole 10 ms."""
    hop = round(HOP * sample_rate)
    slices = np.pad(samples.astype(np.float64), (0, -len(samples) % hop)).reshape(-1, hop)
    power = np.square(np.abs(np.fft.rfft(slices, axis=1))) / hop
    power[:, 1 : (hop + 1) // 2] *= 2.0  # bins that stand for a negative frequency as well
    return np.add.reduceat(power, _band_starts(hop, sample_rate), axis=1)


def _band_starts(hop: int, sample_rate: int) -> np.ndarray:
    """(B,) the first bin of each band; fewer bands where they are narrower than bins."""
    return np.unique(np.ceil(mel_edges(BANDS, sample_rate)[:-1] / sample_rate * hop).astype(int))


def levels(energy: np.ndarray, sample_rate: int) -> np.ndarray:
    """(T, B) energies of every 10 ms -> (T,) dB, each over 20 ms, of what stands out of the noise in its band.

    The noise of a band is what it nearly always has within half a minute, and within a part that digital silence
    divides from others, if it is long enough. It is taken off (spectral subtraction, Boll 1979), so that a vowel that
    fades is heard longer than by its level. Of noise alone a tenth is left.
    """
    both = energy + np.concatenate([energy[1:], np.zeros_like(energy[:1])])
    scale = 2 * round(HOP * sample_rate)
    heard, silent = np.empty(len(both)), both.sum(1) <= NOTHING * scale
    bounds = _bounds_of_parts(silent)
    for begin, end in itertools.pairwise(bounds):
        own = np.count_nonzero(~silent[begin:end]) >= LEAST_PART
        lowest, highest = (begin, end) if own else (0, len(both))
        for first in range(begin, end, NOISE_AROUND):
            here = both[first : min(first + NOISE_AROUND, end)]
            near = slice(max(lowest, first - NOISE_AROUND), min(highest, first + 2 * NOISE_AROUND))
            sound = both[near][~silent[near]]
            noise = np.percentile(sound, NOISE_PERCENTILE, axis=0) if len(sound) else np.zeros(both.shape[1])
            above = np.maximum(here - CLEAR * noise, 0.0).sum(1) + LEFT * noise.sum()
            heard[first : first + len(here)] = np.minimum(above, here.sum(1))
    return 10.0 * np.log10(heard / scale + NOTHING)


def _bounds_of_parts(silent: np.ndarray) -> list[int]:
    """(T,) whether it is digitally silent -> where the parts begin that such a silence divides, and T."""
    edges = np.flatnonzero(np.diff(silent, prepend=False, append=False)).reshape(-1, 2)
    joins = (end for start, end in edges.tolist() if start > 0 and end < len(silent) and end - start >= JOIN)
    return [0, *joins, len(silent)]
