"""The sizes of a live stream's steps through a model; `ds2/recognition/chunks.py` and the exported page cut by them."""

from dataclasses import dataclass
from typing import Any

from ds2.model.config import ModelConfig

CHUNK_FRAMES = 12  # front-end frames of a step, at least
LONG_CHUNK_FRAMES = 48  # of a step where that much sound waits: at an end, or of an upload


@dataclass(frozen=True)
class Steps:
    """A step hears a chunk: some new front-end frames, and the samples before that its first window needs again."""

    hop: int  # samples
    overlap: int  # samples of a chunk that the chunk before had, too
    stride: int  # front-end frames per output frame
    delay: int  # output frames by which the log-probabilities lag behind the sound
    frames: int  # front-end frames of a chunk
    long_frames: int  # of a chunk where that much sound waits
    least_frames: int  # of which the last chunk holds a whole number
    whole_frames: int = 0  # of every chunk but a stream's last; 0: any number of strides

    @classmethod
    def of(
        cls, model: ModelConfig, chunk_frames: int = CHUNK_FRAMES, long_chunk_frames: int = LONG_CHUNK_FRAMES
    ) -> "Steps":
        """The steps of a model: those of its chunk if it has one, else frames rounded up to its stride."""
        hop, stride = model.frontend.hop_samples, model.stride
        return cls(
            hop,
            model.frontend.window_samples - hop,
            stride,
            model.delay,
            model.step_frames(chunk_frames),
            model.step_frames(long_chunk_frames),
            -(-chunk_frames // stride) * stride,
            model.chunk * stride,
        )

    def samples(self, frames: int) -> int:
        """How many samples a chunk of so many front-end frames has."""
        return frames * self.hop + self.overlap

    def check(self, samples: int, positions: Any, lengths: Any) -> None:
        """Checks the `samples` of a chunk of each stream, at (B,) positions of (B,) lengths, in front-end frames.

        Raises:
            ValueError: the model has a fixed chunk, and these frames are not one.
        """
        whole, frames = self.whole_frames, (samples - self.overlap) // self.hop
        last = positions + frames >= lengths + self.delay * self.stride
        if whole and frames != whole and (frames > whole or not bool(last.all())):
            raise ValueError(f"the model takes chunks of {whole} frames")

    def outputs(self, length: int) -> int:
        """Output frames of a stream of so many front-end frames."""
        return -(-length // self.stride)
