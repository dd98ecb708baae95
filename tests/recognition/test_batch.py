"""Which recordings are meant, and where their transcripts go."""

import json
from pathlib import Path

import pytest
from helpers.commands import write_noise

from ds2.data.utterance import Segment
from ds2.recognition.batch import OutputFolder, find_recordings, total_seconds, transcribe_all
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError


def test_files_folders_patterns_and_manifests_are_found_once_each(tmp_path: Path) -> None:
    a, b = write_noise(tmp_path / "in" / "a.wav"), write_noise(tmp_path / "in" / "deep" / "b.WAV")
    c = write_noise(tmp_path / "c.wav")
    (tmp_path / "in" / "notes.txt").touch()
    rows = [{"audio_filepath": "c.wav", "duration": 0.1, "text": "", "offset": offset} for offset in (0.0, 0.1)]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert find_recordings([str(tmp_path / "in"), str(a)]) == [Segment(a), Segment(b)]
    assert find_recordings([str(tmp_path / "in" / "*.wav")]) == [Segment(a)]
    assert find_recordings([str(tmp_path / "**" / "*.wav")]) == [Segment(c), Segment(a)]
    assert find_recordings([str(tmp_path / "m.jsonl")]) == [Segment(c, 0.0, 0.1), Segment(c, 0.1, 0.1)]
    with pytest.raises(InputError, match="no file matches"):
        find_recordings([str(tmp_path / "*.mp3")])


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "[a].wav")
    assert find_recordings([str(path)]) == [Segment(path)]


def test_seconds_of_audio_are_counted_without_the_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 0.5)
    assert total_seconds([Segment(path), Segment(path, 0.1, 0.2), Segment(tmp_path / "gone.wav")]) == 0.7


def test_outputs_that_are_there_are_not_missing(tiny_bundle: Path, tmp_path: Path) -> None:
    segments = [Segment(write_noise(tmp_path / f"{name}.wav")) for name in "ab"]
    output = OutputFolder(tmp_path / "out", ["txt", "json"], segments)
    assert output.missing(segments) == segments
    recognizer = Recognizer.load(tiny_bundle, "cpu")
    seconds: list[float] = []
    results = list(transcribe_all(recognizer, segments[:1], output, seconds.append))
    assert [segment for segment, _ in results] == segments[:1]
    assert sum(seconds) == pytest.approx(0.3, abs=0.05)
    assert output.missing(segments) == segments[1:]
    (tmp_path / "out" / "a.json").unlink()
    assert output.missing(segments) == segments


def test_parts_of_one_recording_have_outputs_of_their_own(tmp_path: Path) -> None:
    segments = [Segment(Path("a.wav"), 0.0, 1.0), Segment(Path("a.wav"), 1.0, 1.0), Segment(Path("a.wav"))]
    targets = OutputFolder(tmp_path, ["txt"], segments).targets
    assert [targets[segment].name for segment in segments] == ["a_0.00", "a_1.00", "a"]
