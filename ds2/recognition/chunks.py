"""The sound of one stream -> the steps of a model, for either engine; page/chunks.js of ds2/export does the same.

samples  |------- chunk -------|
                          |------- chunk -------|          they overlap, as windows of the front end do
                                           |------- chunk --00000|     silence, until all log_probs are out
"""

from dataclasses import dataclass

import numpy as np

from ds2.model.config import UNENDED
from ds2.model.steps import Steps


@dataclass(frozen=True)
class Chunk:
    """What one step of a stream hears."""

    samples: np.ndarray  # (N,)
    position: int  # front-end frames of the stream before it
    frames: int  # front-end frames in it
    length: int  # front-end frames of the whole stream; UNENDED until it is known
    rows: slice  # those of its log-probabilities that lie within the stream


class Chunks:
    """Cuts sound: `step` takes samples, `finish` ends the sound; both give the chunks that are ready."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self.waiting = np.zeros(0, np.float32)  # samples from the frame at `position` on
        self.position = 0  # front-end frames that are cut
        self.received = 0  # samples

    def step(self, samples: np.ndarray) -> list[Chunk]:
        """(N,) next samples -> the chunks that are whole."""
        steps, chunks = self.steps, []
        self.waiting = np.concatenate([self.waiting, samples])
        self.received += len(samples)
        while len(self.waiting) >= steps.samples(steps.frames):
            is_long = len(self.waiting) >= steps.samples(steps.long_frames)
            chunks.append(self._chunk(steps.long_frames if is_long else steps.frames, UNENDED))
        return chunks

    def finish(self) -> list[Chunk]:
        """The chunks that bring the rest of the log-probabilities, filled up with silence."""
        steps, chunks = self.steps, []
        length = max(1, (self.received - steps.overlap) // steps.hop) if self.received else 0
        # The log-probabilities lag behind, so that the last of them come after the last frame.
        end = (steps.outputs(length) + steps.delay) * steps.stride if length else 0
        while (needed := end - self.position) > 0:
            whole = -(-needed // steps.least_frames) * steps.least_frames
            frames = steps.long_frames if needed > steps.frames else min(steps.frames, whole)
            missing = steps.samples(frames) - len(self.waiting)
            self.waiting = np.pad(self.waiting, (0, max(0, missing)))
            chunks.append(self._chunk(frames, length))
        return chunks

    def _chunk(self, frames: int, length: int) -> Chunk:
        steps, position = self.steps, self.position
        first = position // steps.stride - steps.delay
        rows = slice(max(0, -first), max(0, steps.outputs(length) - first))
        chunk = Chunk(self.waiting[: steps.samples(frames)], position, frames, length, rows)
        self.waiting = self.waiting[frames * steps.hop :]
        self.position += frames
        return chunk
