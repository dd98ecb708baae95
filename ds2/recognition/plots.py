"""Pictures for where a person would rather look than read."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ds2.data.audio import read_audio
from ds2.utils.files import atomic_write

if TYPE_CHECKING:
    from ds2.recognition.align import AlignedRecording

SECONDS_PER_INCH = 0.5
WIDEST = 100.0  # inches: what a picture viewer still shows; longer recordings are pressed together
LONGEST = 600.0  # seconds
DECIBELS = 80.0  # below the loudest cell all is black


def draw_alignment(path: Path, aligned: "AlignedRecording", sample_rate: int, frame_seconds: float) -> None:
    """Spectrogram with word edges above; below it the posteriors of the transcript's tokens and the path through them.

    Of a recording of more than LONGEST seconds only that much from the beginning is drawn.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    seconds = min(LONGEST, aligned.transcript.duration)
    samples, _ = read_audio(aligned.audio, sample_rate, 0.0, seconds)
    words = [word for word in aligned.transcript.words if word.start < seconds]
    log_probs, starts = aligned.log_probs[: round(seconds / frame_seconds)], aligned.starts * frame_seconds
    tokens, starts = aligned.tokens[starts < seconds], starts[starts < seconds]
    width = min(WIDEST, max(8.0, seconds / SECONDS_PER_INCH))
    figure, (sound, trellis) = pyplot.subplots(2, 1, figsize=(width, 7), sharex=True, constrained_layout=True)
    extent = (0.0, seconds, 0.0, sample_rate / 2000)
    sound.imshow(_spectrogram(samples).numpy(), origin="lower", aspect="auto", extent=extent, cmap="magma")
    sound.set(ylabel="kHz", title="words, with their confidence")
    for word in words:
        sound.axvspan(word.start, word.end, alpha=0.15, color="white")
        sound.text((word.start + word.end) / 2, 0.93 * extent[3], f"{word.text}\n{word.confidence:.2f}",
                   color="white", ha="center", va="top", fontsize=8, clip_on=True)  # fmt: skip
    trellis.imshow(log_probs[:, tokens].exp().T.numpy(), origin="lower", aspect="auto", cmap="Greys", vmin=0, vmax=1,
                   extent=(0.0, len(log_probs) * frame_seconds, -0.5, len(tokens) - 0.5))  # fmt: skip
    trellis.step(starts.tolist(), range(len(starts)), where="post", color="C3", linewidth=1)
    if len(tokens) <= 60:
        names = [aligned.names[token].replace(" ", "␣") for token in tokens.tolist()]
        trellis.set_yticks(range(len(tokens)), names, fontsize=6)
    trellis.set(xlabel="seconds", ylabel="tokens of the transcript")
    with atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=80)
    pyplot.close(figure)


def _spectrogram(samples: torch.Tensor, size: int = 256) -> torch.Tensor:
    """(N,) -> (F, T) in dB, the loudest cell 0."""
    padded = torch.nn.functional.pad(samples, (0, max(0, size - len(samples))))
    power = torch.stft(padded, size, size // 2, window=torch.hann_window(size), return_complex=True).abs().square()
    level = 10 * (power + 1e-12).log10()
    return (level - level.max()).clamp(min=-DECIBELS)
