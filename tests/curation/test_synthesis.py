"""Synthesised speech, and the times of its words."""

import numpy as np
import pytest

from ds2.curation.synthesis import MANDARIN, Voice, installed, speak
from ds2.utils.errors import InputError

needs_espeak = pytest.mark.skipif(not installed("espeak-ng"), reason="espeak-ng is not installed")
needs_flite = pytest.mark.skipif(not installed("flite"), reason="flite is not installed")


def level(samples: np.ndarray, rate: int, start: float, end: float) -> float:
    return float(np.sqrt(np.mean(np.square(samples[round(start * rate) : round(end * rate)]))))


@needs_espeak
def test_espeak_reports_the_times_of_words() -> None:
    """In order, without overlap, loud within and quiet in the pause at the comma."""
    spoken = speak("The quick brown fox, isn't it lovely?", Voice("espeak-ng", "gmw/en-US+f3"))
    assert spoken.words is not None
    assert [word for word, _, _ in spoken.words] == ["the", "quick", "brown", "fox", "isn't", "it", "lovely"]
    times = [time for _, start, end in spoken.words for time in (start, end)]
    assert times == sorted(times)
    samples, rate = spoken.samples.numpy(), spoken.sample_rate
    assert times[-1] <= len(samples) / rate
    loud = [level(samples, rate, start, end) for _, start, end in spoken.words]
    fox, isnt = spoken.words[3], spoken.words[4]
    assert isnt[1] - fox[2] > 0.08
    assert level(samples, rate, fox[2] + 0.03, isnt[1]) < 0.1 * min(loud)


@needs_espeak
def test_espeak_reports_the_beginnings_of_sounds() -> None:
    """Those of a word begin within it; the comma is a pause."""
    spoken = speak("see, two", Voice("espeak-ng", "gmw/en"))
    assert spoken.words is not None
    assert spoken.sounds is not None
    starts = [start for _, start in spoken.sounds]
    assert starts == sorted(starts)
    (_, see, after), (_, two, end) = spoken.words
    first = [name for name, start in spoken.sounds if see <= start < after and name]
    second = [name for name, start in spoken.sounds if two <= start < end and name]
    assert (first[0], second[0]) == ("s", "t")
    assert any(name == "" and after <= start < two for name, start in spoken.sounds)


@needs_espeak
def test_espeak_reads_mandarin_characters() -> None:
    spoken = speak("我明天想去北京，吃饭。", Voice("espeak-ng", f"{MANDARIN}+m3"))
    assert spoken.words is not None
    assert "".join(word for word, _, _ in spoken.words) == "我明天想去北京吃饭"
    assert 1.5 < len(spoken.samples) / spoken.sample_rate < 4.5


@needs_espeak
def test_figures_have_no_words() -> None:
    assert speak("22 books", Voice("espeak-ng", "gmw/en")).words is None


@needs_espeak
def test_speed_and_pitch_change_the_speech() -> None:
    def seconds(speed: int) -> float:
        spoken = speak("one two three four", Voice("espeak-ng", "gmw/en", speed))
        return len(spoken.samples) / spoken.sample_rate

    assert seconds(120) > 1.3 * seconds(200)


@needs_espeak
def test_unknown_voices_of_espeak_are_refused() -> None:
    with pytest.raises(InputError, match="no voice 'gmw/nowhere'"):
        speak("one", Voice("espeak-ng", "gmw/nowhere"))


@needs_flite
def test_flite_speaks() -> None:
    spoken = speak("one two three", Voice("flite", "slt"))
    assert spoken.words is None
    assert len(spoken.samples) / spoken.sample_rate > 0.8
    slow = speak("one two three", Voice("flite", "slt", 120))
    assert len(slow.samples) > 1.2 * len(spoken.samples)
