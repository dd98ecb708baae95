"""How live sound is cut into chunks, and which pause ends an utterance. It imports nothing heavy."""

from dataclasses import dataclass

from ds2.utils.config import formerly


@dataclass(frozen=True)
class LiveConfig:
    """How streams are cut into chunks, and when results come."""

    chunk_frames: int = 12  # front-end frames (10 ms) of a chunk; rounded up to the model's stride, or its own chunk
    long_chunk_frames: int = 48  # of a chunk where that much sound waits: at an end, or of an upload
    partial_interval_seconds: float = formerly("partial_every", 0.1)  # the least time between two partial results
    pause_seconds: float = formerly("pause", 0.6)  # frames without a label for so long end an utterance
    long_utterance_seconds: float = formerly("long_utterance", 20.0)  # after these a shorter pause is enough
    short_pause_seconds: float = formerly("short_pause", 0.15)
