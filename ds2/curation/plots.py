"""All figures of curation: what the filter learnt, the segments kept and rejected, and each segment's spectrogram."""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ds2.audio.tensors import read_audio
from ds2.curation.score import FEATURES
from ds2.data.utterance import Utterance
from ds2.utils.files import atomic_write
from ds2.utils.plots import subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ds2.curation.filter import FilterReport

INK, GOOD, BAD, PALE = "#1f2933", "#1b998b", "#e4572e", "#9aa5b1"
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "axes.axisbelow": True,
    "svg.fonttype": "none",  # text stays text
}
WIDTH, WAVE_HEIGHT, SPECTROGRAM_HEIGHT = 720, 40, 96  # pixels
DECIBELS = 70.0  # range of the colours, below the loudest cell
QUALITY = 75
BACKGROUND, WAVE = (250, 250, 247), (27, 73, 101)


def draw_filter(path: Path, report: "FilterReport") -> None:
    """Draws WER over the fraction kept; with checked segments the ROC curve too, and of a classifier its coefficients.

    PNG or SVG by the suffix of the path.
    """
    panels: list[Callable[[Any, FilterReport], None]] = [_draw_curve]
    if report.area is not None:
        panels.insert(0, _draw_roc)
    if not report.by_alignment:
        panels.append(_draw_coefficients)
    with _style():
        figure, axes = subplots(1, len(panels), size=(1.0 + 3.4 * len(panels), 3.2), squeeze=False)
        for draw, place in zip(panels, axes[0], strict=True):
            draw(place, report)
        _save(figure, path)


def _draw_roc(axes: Any, report: "FilterReport") -> None:
    axes.plot(*zip(*report.roc, strict=True), color=GOOD, linewidth=2)
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle=":")
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title=f"ROC, area {report.area:.3f}")


def _draw_curve(axes: Any, report: "FilterReport") -> None:
    fractions, wers = (np.array(values) for values in zip(*report.curve, strict=True))
    axes.plot(100 * fractions, 100 * wers, color=GOOD, linewidth=2)
    here = (100 * report.examples_kept, 100 * report.wer_held_out)
    axes.plot(*here, "o", color=BAD, markersize=7)
    label = f"{report.wer_held_out:.1%} at {report.examples_kept:.0%}"
    axes.annotate(label, here, (-6, 8), textcoords="offset points", ha="right", color=BAD)
    checked = report.area is not None
    axes.set(xlabel="segments kept, %", ylabel="wrong words, %" if checked else "words that differ, %", xlim=(0, 101))
    held_out = "" if report.by_alignment else ", held out"
    axes.set_title(("WER of what is kept" if checked else "Texts against the model") + held_out)
    axes.set_ylim(bottom=0)


def _draw_coefficients(axes: Any, report: "FilterReport") -> None:
    weights = report.classifier.weights
    axes.barh(FEATURES[::-1], weights[::-1], color=[BAD if weight > 0 else GOOD for weight in weights[::-1]])
    axes.set(xlabel="log odds of bad, per deviation", title="Coefficients")


def draw_segments(path: Path, segments: Sequence[Utterance]) -> None:
    """Draws the durations of the segments and their log odds, kept and rejected ones apart."""
    with _style():
        figure, (left, right) = subplots(1, 2, size=(11, 2.6))
        groups = [[each for each in segments if each.extra["kept"] is kept] for kept in (True, False)]
        names, colours = ["kept", "rejected"], [GOOD, BAD]
        for axes, values, label in (
            (left, [[each.duration for each in group] for group in groups], "seconds"),
            (right, [np.clip([each.extra["odds"] for each in group], -10, 10) for group in groups], "log odds of bad"),
        ):
            axes.hist(values, bins=40, stacked=True, color=colours, label=names)
            axes.set(xlabel=label, ylabel="segments")
        mean = np.mean([each.duration for each in segments])
        left.set_title(f"Durations, {mean:.1f} s on average")
        right.set_title("Scores")
        right.legend(frameon=False)
        _save(figure, path)


def draw_spectrogram(audio: Path, path: Path) -> None:
    """Draws waveform and spectrogram of an audio file as WebP, unless the file at `path` is newer than the audio."""
    if path.exists() and path.stat().st_mtime_ns >= audio.stat().st_mtime_ns:
        return
    from PIL import Image

    samples, rate = read_audio(audio)
    image = np.concatenate([waveform(samples.numpy()), spectrogram(samples, rate)])
    with atomic_write(path) as partial:
        Image.fromarray(image).save(partial, "WEBP", quality=QUALITY, method=2)


def waveform(samples: np.ndarray) -> np.ndarray:
    """(N,) -> (WAVE_HEIGHT, WIDTH, 3) bytes: each column spans the lowest to the highest sample of its time."""
    image = np.full((WAVE_HEIGHT, WIDTH, 3), BACKGROUND, np.uint8)
    edges = np.linspace(0, len(samples), WIDTH + 1).astype(int)
    middle = (WAVE_HEIGHT - 1) / 2
    scale = middle / max(1e-4, float(np.abs(samples).max(initial=0.0)))
    for column, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
        part = samples[start : max(end, start + 1)]
        if len(part):
            top, bottom = round(middle - part.max() * scale), round(middle - part.min() * scale)
            image[top : bottom + 1, column] = WAVE
    return image


def spectrogram(samples: torch.Tensor, rate: int) -> np.ndarray:
    """(N,) -> (SPECTROGRAM_HEIGHT, WIDTH, 3) bytes: low frequencies at the bottom, 25 ms windows."""
    from matplotlib import colormaps
    from PIL import Image

    size = max(64, round(0.025 * rate))
    padded = torch.nn.functional.pad(samples, (size // 2, size // 2))
    window = torch.hann_window(size)
    power = torch.stft(padded, size, max(1, size // 4), window=window, center=False, return_complex=True).abs().square()
    level = 10 * (power + 1e-10).log10()
    shade = ((level - level.max()) / DECIBELS + 1).clamp(0, 1).flip(0)
    grey = Image.fromarray((255 * shade).byte().numpy()).resize((WIDTH, SPECTROGRAM_HEIGHT), Image.Resampling.BILINEAR)
    colours = (255 * colormaps["magma"](np.arange(256))[:, :3]).astype(np.uint8)
    return np.asarray(colours[np.asarray(grey)])


def _style() -> contextlib.AbstractContextManager[None]:
    import matplotlib

    return matplotlib.rc_context(STYLE)


def _save(figure: "Figure", path: Path) -> None:
    """Writes the figure whole or not at all."""
    with atomic_write(path) as partial:
        figure.savefig(partial, format=path.suffix[1:], dpi=110)
