"""Plots of alignments and of a tuned decoder, as PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ds2.audio.files import read_audio_array
from ds2.recognition.align import AlignedRecording
from ds2.recognition.calibration import BINS, area_under_roc, calibration_error, reliability
from ds2.recognition.confidence import is_doubtful
from ds2.utils.plots import save_png, subplots

if TYPE_CHECKING:
    from ds2.recognition.tune_decoder import Tuning

PAGE_SECONDS = 30.0  # of the recording on one picture
MOST_PAGES = 5  # of a long recording: each takes half a second to draw
SECONDS_PER_INCH = 1.0
NARROWEST = 8.0  # inches
LEFT = 0.7  # inches beside the axes
DOTS_PER_INCH = 80
DECIBELS = 80.0  # below the loudest cell of the spectrogram everything is black
NAMED_TOKENS = 60  # that fit beside the trellis


@dataclass(frozen=True)
class Page:
    """The part of an aligned recording that one picture shows, from `start` to `end` (seconds)."""

    start: float
    end: float


def choose_pages(aligned: AlignedRecording) -> list[Page]:
    """The whole of a recording of up to PAGE_SECONDS; of a longer one the pages with doubtful words.

    At most MOST_PAGES, those with the most doubtful words, in order of time; the first page where no word is doubtful.
    """
    duration = aligned.transcript.duration
    doubtful: dict[int, int] = {}  # page -> doubtful words on it
    for word in filter(is_doubtful, aligned.transcript.words):
        number = int(word.start // PAGE_SECONDS)
        doubtful[number] = doubtful.get(number, 0) + 1
    worst = sorted(doubtful, key=lambda number: -doubtful[number])[:MOST_PAGES] or [0]
    return [Page(n * PAGE_SECONDS, min(duration, (n + 1) * PAGE_SECONDS)) for n in sorted(worst)]


def draw_alignment(
    folder: Path, name: str, aligned: AlignedRecording, sample_rate: int, frame_seconds: float
) -> list[Path]:
    """Draws the pages of `choose_pages` as NAME.png, or NAME_at_30s.png where a recording has several; their paths.

    Each shows the spectrogram with the edges of the words above, and below it the posteriors of the transcript's
    tokens and the path through them.
    """
    paths = []
    for page in choose_pages(aligned):
        suffix = "" if aligned.transcript.duration <= PAGE_SECONDS else f"_at_{page.start:.0f}s"
        paths.append(folder / f"{name}{suffix}.png")
        _draw_page(paths[-1], page, aligned, sample_rate, frame_seconds)
    return paths


def _draw_page(path: Path, page: Page, aligned: AlignedRecording, sample_rate: int, frame_seconds: float) -> None:
    seconds = page.end - page.start
    width = max(NARROWEST, seconds / SECONDS_PER_INCH)
    figure, (sound, trellis) = subplots(2, 1, size=(width, 7), sharex=True)
    figure.set_layout_engine(None)  # constrained layout would draw everything twice
    figure.subplots_adjust(left=LEFT / width, right=1 - 0.2 / width, bottom=0.07, top=0.95, hspace=0.05)
    samples, _ = read_audio_array(aligned.audio, sample_rate, page.start, seconds)
    extent = (page.start, page.end, 0.0, sample_rate / 2000)
    sound.imshow(_spectrogram(samples), origin="lower", aspect="auto", extent=extent, cmap="magma")
    sound.set(ylabel="kHz", title="words with their confidence")
    for word in aligned.transcript.words:
        if page.start <= word.start < page.end:
            sound.axvspan(word.start, min(word.end, page.end), alpha=0.15, color="white")
            sound.text((word.start + word.end) / 2, 0.93 * extent[3], f"{word.text}\n{word.confidence:.2f}",
                       color="white", ha="center", va="top", fontsize=8, clip_on=True)  # fmt: skip
    first, last = round(page.start / frame_seconds), round(page.end / frame_seconds)
    shown = (aligned.starts >= first) & (aligned.starts < last)
    tokens, starts = aligned.tokens[shown], aligned.starts[shown] * frame_seconds
    if len(tokens):
        extent = (page.start, page.end, -0.5, len(tokens) - 0.5)
        posteriors = np.exp(aligned.log_probs[first:last, tokens]).T
        trellis.imshow(posteriors, origin="lower", aspect="auto", cmap="Greys", vmin=0, vmax=1, extent=extent)
        trellis.step(starts.tolist(), range(len(starts)), where="post", color="C3", linewidth=1)
    if len(tokens) <= NAMED_TOKENS:
        names = [aligned.names[token].replace(" ", "␣") for token in tokens.tolist()]
        trellis.set_yticks(range(len(tokens)), names, fontsize=6)
    trellis.set(xlabel="seconds", ylabel="tokens of the transcript")
    save_png(figure, path, DOTS_PER_INCH)


def _spectrogram(samples: np.ndarray, size: int = 256) -> np.ndarray:
    """(N,) -> (F, T) in dB, the loudest cell 0."""
    padded = np.pad(samples, (size // 2, size // 2 + max(0, size - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)[:: size // 2]
    level = 10 * np.log10(np.square(np.abs(np.fft.rfft(windows * np.hanning(size)))) + 1e-12).T
    return np.maximum(level - level.max(), -DECIBELS)


def draw_tuning(tuning: "Tuning", path: Path) -> None:
    """The error rate over both weights, and over the width of the beam."""
    figure, (left, right) = subplots(1, 2, size=(10, 4))
    weights, bonuses = zip(*tuning.surface, strict=True)
    percent = [100 * error for error in tuning.surface.values()]
    filled = left.tricontourf(weights, bonuses, percent, levels=20, cmap="viridis_r")
    left.plot(weights, bonuses, "k.", markersize=2)
    left.plot(tuning.config.lm_weight, tuning.config.word_bonus, "r*", markersize=12)
    left.set(xlabel="lm_weight", ylabel="word_bonus, nats")
    figure.colorbar(filled, ax=left, label=f"{tuning.unit}, %")
    right.plot(list(tuning.widths), [100 * error for error in tuning.widths.values()], "o-", label="beam")
    right.axhline(100 * tuning.greedy, color="gray", linestyle="--", label="greedy")
    right.set(xlabel="beam width", ylabel=f"{tuning.unit}, %", xscale="log")
    right.legend()
    save_png(figure, path, dpi=110)


def draw_reliability(confidences: Sequence[float], right: Sequence[bool], path: Path) -> None:
    """The share of right words in each tenth of confidence, above how many words it has."""
    figure, (shares, counts) = subplots(2, 1, size=(5, 6), sharex=True, height_ratios=(3, 1))
    bins = reliability(confidences, right)
    means, found, words = zip(*bins, strict=True) if bins else ((), (), ())
    shares.plot([0, 1], [0, 1], color="gray", linestyle="--", label="as it should be")
    shares.plot(means, found, "o-", label="found")
    error, area = calibration_error(confidences, right), area_under_roc(confidences, right)
    shares.set(ylabel="share of right words", title=f"calibration error {error:.1%}, area under ROC {area:.2f}")
    shares.legend()
    counts.bar(means, words, width=0.8 / BINS)
    counts.set(xlabel="confidence", ylabel="words", xlim=(0, 1))
    save_png(figure, path, DOTS_PER_INCH)
