"""Several channels -> one."""

import numpy as np

CANCELLED = 1e-3  # of the channels' power: where their mean has less, they hold the same sound with opposite signs


def mixdown(samples: np.ndarray, axis: int) -> np.ndarray:
    """(n, channels) or (channels, n) float32, the channels along `axis` -> (n,) their mean.

    Where they cancel out, as on a stereo recording with one channel inverted, it is the first channel that is about as
    loud as any. NaN where infinities of both signs meet.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        mean: np.ndarray = samples.mean(axis=axis, dtype=np.float64).astype(np.float32)
        if np.vdot(mean, mean) * samples.shape[axis] < CANCELLED * np.vdot(samples, samples):
            power = np.square(samples, dtype=np.float64).sum(axis=1 - axis)
            mean = samples.take(int(np.argmax(power > power.max() / 2)), axis=axis)
    return mean
