"""Windows of long recordings, and which recordings are decoded together."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from ds2.audio.files import read_audio_array
from ds2.data.utterance import RecordingSpan
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.windows import CONTEXT_SECONDS, LONG_SECONDS, Cutter, Job, Result, padded_groups

ENGLISH = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "cv_00026.opus"


def results(durations: list[float]) -> list[Result]:
    return [(RecordingSpan(Path(str(number))), seconds, torch.zeros(1, 2)) for number, seconds in enumerate(durations)]


@pytest.mark.parametrize(
    ("durations", "sizes"),
    [([], []), ([1, 2, 3], [3]), ([5, 5, 1, 1], [2, 2]), ([1, 1, 1, 9, 1], [3, 1, 1]), ([30, 1, 30], [1, 1, 1])],
)
def test_a_group_padded_to_its_longest_keeps_to_the_limit(durations: list[float], sizes: list[int]) -> None:
    given = results(durations)
    groups = list(padded_groups(given, 10.0))
    assert [len(group) for group in groups] == sizes
    assert [result for group in groups for result in group] == given


def test_a_long_recording_does_not_wait_for_the_next() -> None:
    given = iter(results([30, 1]))
    assert len(next(padded_groups(given, 10.0))) == 1
    assert next(given)[1] == 1


@pytest.mark.parametrize("seconds", [30.01, 40.0, 47.3, 65.0, 85.01])
def test_cuts_of_long_recordings_cover_every_frame_once(seconds: float) -> None:
    cutter, frame, at = Cutter(8000, 160), 0.02, 0
    cuts = list(cutter.cuts(seconds))
    for start, length, first, last in cuts:
        assert length <= LONG_SECONDS + CONTEXT_SECONDS
        assert round(start / frame) + first == at
        at = round(start / frame) + last if last is not None else round(seconds / frame)
    assert at == round(seconds / frame)
    assert cuts[-1][0] + cuts[-1][1] == pytest.approx(seconds)


@pytest.mark.parametrize("name", ["english", "digits-streaming"])
def test_a_window_holds_as_much_after_its_core_as_the_model_hears(name: str) -> None:
    """Not a frame less, so that words at the edge are what they are in the whole recording; little more."""
    recognizer = Recognizer.load(name, "cpu")
    cutter, rate = recognizer.cutter, recognizer.sample_rate
    samples = np.random.default_rng(0).standard_normal(round(4.0 * rate)).astype(np.float32) / 10
    [whole] = recognizer.model.log_probs([samples])
    core = 60
    assert cutter.frames_after is not None
    assert cutter.frames_after * cutter.frame_samples < rate

    def of_window(after: int) -> np.ndarray:
        [found] = recognizer.model.log_probs([samples[: (core + after) * cutter.frame_samples]])
        return found[:core]

    np.testing.assert_allclose(of_window(cutter.frames_after), whole[:core], atol=2e-5)
    assert np.abs(of_window(cutter.frames_after - 2) - whole[:core]).max() > 1e-3


def test_a_model_that_needs_the_end_has_context_on_both_sides() -> None:
    assert Recognizer.load("digits", "cpu").cutter.frames_after is None


def test_a_recording_that_is_far_too_quiet_loses_no_words(tmp_path: Path) -> None:
    """A two-hundredth of its level, in 16 bits: as a file, and as samples."""
    recognizer, (samples, rate) = Recognizer.load("english", "cpu"), read_audio_array(ENGLISH, 16000)
    quiet = samples / 200
    soundfile.write(tmp_path / "quiet.wav", quiet, rate, "PCM_16")
    expected = recognizer.transcribe(ENGLISH).text
    assert expected.startswith("it was the first time")
    assert recognizer.transcribe(tmp_path / "quiet.wav").text == expected
    assert recognizer.transcribe(quiet, rate).text == expected


@pytest.mark.parametrize("loudest", [0.0101, 1.0])
def test_a_recording_with_a_sample_of_ordinary_level_is_left_alone_to_the_bit(tmp_path: Path, loudest: float) -> None:
    """Wherever it stands, in the last window of a long one too; a quiet one has one gain in all its windows."""
    cutter, path = Cutter(8000, 160), tmp_path / "a.wav"
    noise = np.random.default_rng(0).uniform(-0.005, 0.005, 200 * 8000).astype(np.float32)
    noise[5] = 0.005

    def windows(samples: np.ndarray) -> list[np.ndarray]:
        soundfile.write(path, samples, 8000, "FLOAT")
        found = [window.samples for window in cutter.windows(Job(path))]
        given = [window.samples for window in cutter.windows_of_samples(samples)]
        assert all(map(np.array_equal, found, given))
        return found

    raised = windows(noise)
    noise[-1] = loudest
    left = windows(noise)
    assert len(left) > 3
    assert np.array_equal(left[0], noise[: len(left[0])])
    assert np.array_equal(left[-1], noise[-len(left[-1]) :])
    assert np.array_equal(raised[1], left[1] * np.float32(0.3 / float(np.float32(0.005))))
    [short] = windows(noise[:8000])
    assert np.abs(short).max() == pytest.approx(0.3)


def test_a_channel_and_the_noise_of_sixteen_bits_are_not_raised(tmp_path: Path) -> None:
    """The other channel's voice may be heard faintly in it."""
    faint = np.full((8000, 2), 0.004, np.float32)
    soundfile.write(tmp_path / "a.wav", faint, 8000, "FLOAT")
    [window] = Cutter(8000, 160).windows(Job(RecordingSpan(tmp_path / "a.wav", channel=1)))
    assert np.array_equal(window.samples, faint[:, 1])
    [window] = Cutter(8000, 160).windows_of_samples(faint[:, 0] / 100)
    assert np.array_equal(window.samples, faint[:, 0] / 100)
