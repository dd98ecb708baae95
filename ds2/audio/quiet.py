"""Recordings that are far too quiet: how much louder they must be.

Models that measure the level of a stream as it goes begin with that of their training set. Before they have noticed how
quiet a recording is, its first words lie below the floor of their features.
"""

from collections.abc import Iterable

import numpy as np

QUIET = 10 ** (-40 / 20)  # peak of a recording that is raised; louder ones lose no word
SOUND = 3 / 32768  # peak of what may be speech: less is the noise of 16 bits
ORDINARY = 0.3  # peak that a quiet recording is raised to


def quiet_gain(buffers: Iterable[np.ndarray]) -> float:
    """The factor by which a recording of (n,) buffers is raised to an ordinary level: 1.0 if its peak is not quiet.

    At the first buffer that is not quiet it is known, and no further one is taken.
    """
    peak = 0.0
    for buffer in buffers:
        peak = max(peak, float(np.abs(buffer).max(initial=0.0)))
        if peak >= QUIET:
            return 1.0
    return ORDINARY / peak if peak > SOUND else 1.0
