"""Long recordings are searched in segments between pauses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ds2.audio.tensors import read_audio
from ds2.recognition.offline_segments import LEAST_SECONDS, LONG_SECONDS, PAUSE_SECONDS, LogProbSegment, PauseCutter
from ds2.recognition.recognizer import Recognizer

FRAME = 0.03  # seconds
ENGLISH = Path(__file__).parents[2] / "recipes" / "english" / "audio"


def log_probs(labels: list[int], frames: int) -> np.ndarray:
    """(T, 3): a blank in all frames but those of the labels, in every fifth frame a space."""
    probabilities = np.tile([0.85, 0.1, 0.05], (frames, 1))
    probabilities[::5] = [0.3, 0.1, 0.6]
    probabilities[labels] = [0.1, 0.8, 0.1]
    return np.log(probabilities).astype(np.float32)


@given(
    st.sets(st.integers(0, 4999), max_size=300),
    st.integers(1, 5000),
    st.lists(st.integers(1, 5000), max_size=20),
)
def test_segments_hold_every_frame_once_and_cut_no_speech(labels: set[int], frames: int, cuts: list[int]) -> None:
    """However the log-probabilities are cut into windows."""
    inside = sorted(label for label in labels if label < frames)
    rows, duration = log_probs(inside, frames), frames * FRAME
    segments, whole = in_windows(rows, duration, cuts), in_windows(rows, duration, [])
    assert [segment[:2] for segment in segments] == [segment[:2] for segment in whole]
    assert np.array_equal(np.concatenate([segment.log_probs for segment in segments]), rows)
    assert sum(segment.duration for segment in segments) == pytest.approx(duration)
    assert len(segments) == 1 or duration > LONG_SECONDS
    assert all(segment.duration >= LEAST_SECONDS for segment in segments[:-1])
    for segment in segments[1:]:
        first = round(segment.start / FRAME)
        assert not {*range(first - int(PAUSE_SECONDS / FRAME / 2) + 1, first)} & set(inside)


def in_windows(rows: np.ndarray, duration: float, cuts: list[int]) -> list[LogProbSegment]:
    cutter = PauseCutter(duration, FRAME, [0, 2])
    windows = [window for window in np.split(rows, sorted(cuts)) if len(window)]
    return [segment for window in windows for segment in cutter.step(window)] + [cutter.finish()]


def test_a_long_recording_is_its_parts_in_order() -> None:
    """Three minutes: words, times and confidences are those of the recordings alone."""
    recognizer = Recognizer.load("english", "cpu")
    sounds = [read_audio(path, 16000)[0] for path in sorted(ENGLISH.glob("*.opus"))]
    silence = torch.zeros(16000)
    parts = [part for _ in range(4) for sound in sounds for part in (sound, silence)]
    alone = [word.text for sound in sounds for word in recognizer.transcribe(sound, 16000).words]
    transcript = recognizer.transcribe(torch.cat(parts), 16000)
    words = [word.text for word in transcript.words]
    assert abs(len(words) - 4 * len(alone)) <= 0.1 * len(words)
    assert transcript.text == " ".join(words)
    assert all(one.end <= two.start + 0.1 for one, two in zip(transcript.words, transcript.words[1:], strict=False))
    assert transcript.words[-1].end <= transcript.duration
    assert min(word.confidence for word in transcript.words) < 0.7
