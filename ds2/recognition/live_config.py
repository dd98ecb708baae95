"""How live sound is cut into chunks, and which pause ends a segment. It imports nothing heavy."""

from dataclasses import dataclass

from ds2.model.config import ModelConfig
from ds2.model.steps import CHUNK_FRAMES, LONG_CHUNK_FRAMES, Steps


@dataclass(frozen=True)
class LiveConfig:
    """How streams are cut into chunks, and when results come."""

    chunk_frames: int = CHUNK_FRAMES  # front-end frames (10 ms); rounded up to the model's stride, or its own chunk
    long_chunk_frames: int = LONG_CHUNK_FRAMES  # of a chunk where that much sound waits: at an end, or of an upload
    partial_interval_seconds: float = 0.1  # the least time between two partial results
    pause_seconds: float = 0.75  # without speech end a segment
    long_segment_seconds: float = 20.0  # after these a shorter pause is enough
    short_pause_seconds: float = 0.3  # that pause; a long vowel may be 0.15 s without an output
    least_segment_seconds: float = 0.1  # before a pause ends a segment

    def steps(self, model: ModelConfig) -> Steps:
        """The steps of a stream through the model."""
        return Steps.of(model, self.chunk_frames, self.long_chunk_frames)
