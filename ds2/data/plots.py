"""Plots of a corpus: durations, speaking rates, speakers, characters."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ds2.data.utterance import Utterance
from ds2.utils.plots import save_png, subplots

MOST = 40  # characters and speakers shown


def draw_statistics(path: Path, utterances: Sequence[Utterance], title: str) -> None:
    """Writes a PNG: durations, speaking rates, seconds of each speaker, and how often each character occurs."""
    figure, axes = subplots(2, 2, size=(12, 8))
    hours = sum(utterance.duration for utterance in utterances) / 3600
    figure.suptitle(f"{title}: {len(utterances):,} utterances, {hours:.2f} h")
    durations, rates, speakers, characters = axes.flat
    durations.hist([utterance.duration for utterance in utterances], bins=50, color="C0")
    durations.set(xlabel="seconds", ylabel="utterances", title="durations")
    rates.hist([len(utterance.text) / utterance.duration for utterance in utterances], bins=50, color="C1")
    rates.set(xlabel="characters per second", ylabel="utterances", title="speaking rates")
    seconds: Counter[str] = Counter()
    for utterance in utterances:
        seconds[utterance.speaker or "unknown"] += round(utterance.duration)
    _bars(speakers, seconds, "seconds", f"speakers: {len(seconds)}")
    counts = Counter(character for utterance in utterances for character in utterance.text)
    _bars(characters, counts, "times", f"characters: {len(counts)}")
    characters.set(yscale="log")
    save_png(figure, path, dpi=100)


def _bars(axes: Any, counts: Counter[str], unit: str, title: str) -> None:
    shown = counts.most_common(MOST)
    names = [name.replace(" ", "␣")[-12:] for name, _ in shown]
    axes.bar(range(len(shown)), [count for _, count in shown], color="C2")
    axes.set(ylabel=unit, title=title if len(shown) == len(counts) else f"{title}, the most frequent {MOST}")
    axes.set_xticks(range(len(shown)), names, rotation=90, fontsize=7)
