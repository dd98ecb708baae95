"""Sound in several arrays, and a stream of a model without its search."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from ds2.model.steps import Steps
from ds2.recognition.chunks import Chunks
from ds2.recognition.engine import Engine


def live_log_probs(engine: Engine, arrays: Iterable[np.ndarray]) -> np.ndarray:
    """(N,) samples of each array of sound -> (T, V) log-probabilities of all of it, heard live."""
    slots, chunks = engine.slots(1, "float32"), Chunks(Steps.of(engine.config))
    found = [np.zeros((0, 0), np.float32)]
    for chunk in [*(chunk for array in arrays for chunk in chunks.step(array)), *chunks.finish()]:
        place = np.zeros(1, np.int64), np.array([chunk.position]), np.array([chunk.length])
        found.append(slots.advance(*place, chunk.samples[None])[0][chunk.rows])
    return np.concatenate(found[1:] or found)


def arrays(samples: np.ndarray, sizes: list[int]) -> Iterator[np.ndarray]:
    """(N,) samples in arrays of these sizes, again and again."""
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(samples):
            return
        yield samples[start : start + size]
        start += size
