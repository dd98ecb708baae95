"""Words widened from peaks to the edges of their sound."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds2.audio.loudness import HOP, energies, levels
from ds2.recognition.boundaries import LATE, LEAST_PAUSE, has_closure, word_boundaries

RATE = 8000  # Hz


def bursts(spans: list[tuple[float, float]], seconds: float, quiet: float = 1e-4) -> np.ndarray:
    """Noise that is loud within the spans."""
    samples = np.random.default_rng(0).normal(0, quiet, round(seconds * RATE))
    for start, end in spans:
        samples[round(start * RATE) : round(end * RATE)] *= 0.1 / quiet
    return samples.astype(np.float32)


def level(samples: np.ndarray) -> np.ndarray:
    return levels(energies(samples, RATE), RATE)


@pytest.mark.parametrize("quiet", [1e-5, 1e-3])
@pytest.mark.parametrize("peaks", [[(0.3, 0.36), (0.9, 1.0)], [(0.05, 0.3), (0.6, 1.4)], [(0.21, 0.6), (1.1, 1.2)]])
def test_words_have_the_edges_of_their_sound(peaks: list[tuple[float, float]], quiet: float) -> None:
    """Wherever the peaks are, also in the silence before and after the sound."""
    spans = [(0.2, 0.5), (0.8, 1.3)]
    found = word_boundaries(level(bursts(spans, 2.0, quiet)), peaks)
    for (start, end), (true_start, true_end) in zip(found, spans, strict=True):
        assert start == pytest.approx(true_start, abs=0.011)
        assert end == pytest.approx(true_end, abs=0.011)


def test_what_sounds_within_a_pause_belongs_to_no_word() -> None:
    """A breath between two pauses, and a click."""
    samples = bursts([(0.2, 0.5), (1.5, 1.8)], 2.0)
    samples += 0.1 * bursts([(0.8, 1.2), (1.3, 1.31)], 2.0)
    (_, end), (start, _) = word_boundaries(level(samples), [(0.3, 0.36), (1.6, 1.7)])
    assert end == pytest.approx(0.5, abs=0.011)
    assert start == pytest.approx(1.5, abs=0.011)


def test_a_breath_before_a_word_belongs_to_no_pause_and_no_word() -> None:
    """Between short pauses, or closures; but what is short and behind a word is the release of its last stop."""
    cases = [([(0.64, 1.0)], 0.5), ([(0.55, 1.04)], 0.5), ([(0.6, 0.7), (0.85, 0.97)], 0.7), ([(0.6, 0.9)], 0.5)]
    for breaths, end_of_first in cases:
        samples = bursts([(0.2, 0.5), (1.09, 1.5)], 2.0)
        samples += 0.05 * bursts(breaths, 2.0)
        (_, end), (start, _) = word_boundaries(level(samples), [(0.3, 0.36), (1.2, 1.3)])
        assert end == pytest.approx(end_of_first, abs=0.011)
        assert start == pytest.approx(1.09, abs=0.011)


def test_noise_that_ends_in_digital_silence_is_a_pause() -> None:
    """Recordings that were joined: the silence of the recording, and nothing between them."""
    samples = bursts([(0.2, 0.5), (1.5, 1.8)], 2.0, quiet=1e-3)
    samples[round(0.9 * RATE) : round(1.2 * RATE)] = 0.0
    (_, end), (start, _) = word_boundaries(level(samples), [(0.3, 0.36), (1.6, 1.7)])
    assert end == pytest.approx(0.5, abs=0.011)
    assert start == pytest.approx(1.5, abs=0.011)


def test_each_of_two_joined_recordings_has_its_own_noise() -> None:
    """The noise of the second one, 25 dB below its words, was speech beside the first one's quiet."""
    quiet = bursts([(0.5 * n, 0.5 * n + 0.3) for n in range(1, 10)], 5.0, 1e-4)
    noisy = bursts([(0.4 + 0.5 * n, 0.7 + 0.5 * n) for n in range(9)], 5.0, 0.1 * 10 ** (-25 / 20))
    samples = np.concatenate([quiet, np.zeros(RATE // 2, np.float32), noisy])
    *_, (_, end), (start, _), _ = word_boundaries(level(samples), [(4.55, 4.75), (5.98, 6.1), (6.48, 6.6)])
    assert end == pytest.approx(4.8, abs=0.011)
    assert start == pytest.approx(5.9, abs=0.021)


@pytest.mark.parametrize(("lead", "start"), [(0.25, 0.6), (0.12, 0.48)])
def test_noise_right_before_a_word_is_none_of_it_if_it_lasts(lead: float, start: float) -> None:
    """20 dB below it; a soft first sound, as in "fish", is shorter."""
    samples = bursts([(0.6, 1.0)], 1.5)
    samples += 0.1 * bursts([(0.6 - lead, 0.6)], 1.5)
    [(found, _)] = word_boundaries(level(samples), [(0.7, 0.9)])
    assert found == pytest.approx(start, abs=0.021)


@pytest.mark.parametrize(
    ("word", "closure"),
    [("three", False), ("two", False), ("look", True), ("today", True), ("I", False), ("三", False), ("Straße", True)],
)
def test_words_that_may_be_quiet_within(word: str, closure: bool) -> None:
    """An ideograph is one syllable; what other scripts sound like nobody says."""
    assert has_closure(word) == closure


@pytest.mark.parametrize(("closure", "span"), [(False, (0.5, 0.8)), (True, (0.32, 0.98))])
def test_faint_sounds_beside_a_pause_belong_to_words_with_a_closure(closure: bool, span: tuple[float, float]) -> None:
    """20 dB and more below the word, as the s of "stop" and the last stop of "respect"; "three" has neither."""
    samples = bursts([(0.5, 0.8)], 1.5)
    samples += 0.05 * bursts([(0.32, 0.4), (0.9, 0.98)], 1.5)
    [(start, end)] = word_boundaries(level(samples), [(0.55, 0.7)], [closure])
    assert start == pytest.approx(span[0], abs=0.021)
    assert end == pytest.approx(span[1], abs=0.021)


def test_a_word_that_fades_into_noise_ends_below_it() -> None:
    """A vowel that loses 40 dB in 150 ms, in noise 20 dB below it; without noise as well."""
    time = np.arange(2 * RATE) / RATE
    fading = 10 ** (-2 * np.clip((time - 0.5) / 0.15, 0, 1)) * (time >= 0.2) * (time < 0.65)
    vowel = 0.1 * fading * sum(np.sin(2 * np.pi * 150 * harmonic * time) for harmonic in range(1, 8))
    for noise in (1e-4, 0.02):
        samples = vowel + np.random.default_rng(0).normal(0, noise, len(time))
        [(start, end)] = word_boundaries(level(samples), [(0.3, 0.5)])
        assert start == pytest.approx(0.2, abs=0.021)
        assert end == pytest.approx(0.65, abs=0.041)


def test_words_without_a_pause_share_the_quietest_point() -> None:
    """The closure of a stop is no pause."""
    for loudness in (0.3, 0.0):
        samples = bursts([(0.2, 1.0)], 1.2)
        samples[round(0.58 * RATE) : round(0.62 * RATE)] *= loudness
        (_, end), (start, _) = word_boundaries(level(samples), [(0.3, 0.4), (0.8, 0.9)])
        assert end == start == pytest.approx(0.6, abs=0.021)


def test_silence_and_nothing() -> None:
    assert word_boundaries(level(np.zeros(RATE)), []) == []
    [(start, end)] = word_boundaries(level(np.zeros(RATE)), [(0.4, 0.5)])
    assert 0 <= start < end <= 1.0


@given(st.lists(st.integers(0, 60), min_size=2, max_size=10).map(sorted), st.integers(0, 10**6))
@example([0, 0, 31, 33], 15)
def test_words_never_overlap_nor_leave_their_peaks(edges: list[int], seed: int) -> None:
    times = [edge * 0.03 for edge in edges[: len(edges) // 2 * 2]]
    peaks = list(zip(times[::2], times[1::2], strict=True))
    generator = np.random.default_rng(seed)
    samples = generator.standard_normal(2 * RATE) * generator.random(20).repeat(RATE // 10)
    found = word_boundaries(level(samples), peaks)
    for (start, end), (peak_start, peak_end) in zip(found, peaks, strict=True):
        assert 0 <= start <= peak_end + HOP
        assert end >= peak_start - LATE - HOP
    for (_, end), (start, _) in itertools.pairwise(found):
        assert end == start or start - end >= LEAST_PAUSE * HOP - 1e-9
