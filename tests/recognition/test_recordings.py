"""Which recordings are meant, and where their transcripts go."""

import json
from pathlib import Path

import pytest
from helpers.commands import write_noise

from ds2.data.utterance import RecordingSpan
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.recordings import OutputFolder, find_recordings, output_formats, total_seconds, transcribe_all
from ds2.utils.errors import InputError


def test_files_folders_patterns_and_manifests_are_found_once_each(tmp_path: Path) -> None:
    a, b = write_noise(tmp_path / "in" / "a.wav"), write_noise(tmp_path / "in" / "deep" / "b.WAV")
    c = write_noise(tmp_path / "c.wav")
    (tmp_path / "in" / "notes.txt").touch()
    for hidden in ("._a.wav", ".cache/b.wav"):
        write_noise(tmp_path / "in" / hidden)
    rows = [{"audio_filepath": "c.wav", "duration": 0.1, "text": "", "offset": offset} for offset in (0.0, 0.1)]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert find_recordings([str(tmp_path / "in"), str(a)]) == [RecordingSpan(a), RecordingSpan(b)]
    assert find_recordings([str(tmp_path / "in" / "*.wav")]) == [RecordingSpan(a)]
    assert find_recordings([str(tmp_path / "**" / "*.wav")]) == [RecordingSpan(c), RecordingSpan(a)]
    assert find_recordings([str(tmp_path / "m.jsonl")]) == [RecordingSpan(c, 0.0, 0.1), RecordingSpan(c, 0.1, 0.1)]
    with pytest.raises(InputError, match="no file matches"):
        find_recordings([str(tmp_path / "*.mp3")])


def test_a_pattern_does_not_go_round_a_loop_of_links(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "loop" / "a" / "x.wav")
    (path.parent / "back").symlink_to(tmp_path / "loop")
    (path.parent / "again.wav").symlink_to(path)
    found = find_recordings([str(tmp_path / "loop" / "**" / "*.wav")])
    assert found == [RecordingSpan(path.parent / "again.wav"), RecordingSpan(path)]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "[a].wav")
    assert find_recordings([str(path)]) == [RecordingSpan(path)]


def test_seconds_of_audio_are_counted_without_the_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 0.5)
    assert (
        total_seconds([RecordingSpan(path), RecordingSpan(path, 0.1, 0.2), RecordingSpan(tmp_path / "gone.wav")]) == 0.7
    )


def test_outputs_that_are_there_are_not_missing(tiny_bundle: Path, tmp_path: Path) -> None:
    recordings = [RecordingSpan(write_noise(tmp_path / f"{name}.wav")) for name in "ab"]
    output = OutputFolder(tmp_path / "out", ["txt", "json"], recordings)
    output.make()
    assert output.missing(recordings) == recordings
    recognizer = Recognizer.load(tiny_bundle, "cpu")
    seconds: list[float] = []
    results = list(transcribe_all(recognizer, recordings[:1], output, seconds.append))
    assert [recording for recording, _ in results] == recordings[:1]
    assert sum(seconds) == pytest.approx(0.3, abs=0.05)
    assert output.missing(recordings) == recordings[1:]
    (tmp_path / "out" / "a.json").unlink()
    assert output.missing(recordings) == recordings


def test_recordings_of_one_name_are_called_by_their_folders_below_the_common_one(tmp_path: Path) -> None:
    names = ["a/x.wav", "b/x.wav", "b/y.wav", "b/z.wav", "b/z.mp3"]
    recordings = [RecordingSpan(tmp_path / "calls" / name) for name in names]
    targets = OutputFolder(tmp_path, ["txt"], recordings).targets
    assert [targets[each].name for each in recordings] == ["a_x.wav", "b_x.wav", "y", "b_z.wav", "b_z.mp3"]


def test_a_recording_keeps_its_name_whatever_comes_later(tiny_bundle: Path, tmp_path: Path) -> None:
    """Another one of its name is another recording: it is neither taken for done, nor does it replace a transcript."""
    out, recognizer = tmp_path / "out", Recognizer.load(tiny_bundle, "cpu")

    def recorded(folder: str) -> RecordingSpan:
        (tmp_path / folder).mkdir()
        return RecordingSpan(write_noise(tmp_path / folder / "call.wav"))

    def run(*recordings: RecordingSpan) -> list[str]:
        output = OutputFolder(out, ["txt"], recordings)
        output.make()
        list(transcribe_all(recognizer, output.missing(recordings), output))
        assert output.missing(recordings) == []
        return [output.targets[recording].name for recording in recordings]

    mon, tue, wed = map(recorded, ("mon", "tue", "wed"))
    assert run(mon) == ["call"]
    assert run(tue) == ["tue_call.wav"]
    assert run(mon, tue, wed) == ["call", "tue_call.wav", "wed_call.wav"]
    assert sorted(path.name for path in out.iterdir()) == ["call.txt", "tue_call.wav.txt", "wed_call.wav.txt"]
    mon.path.unlink()  # a recording that went elsewhere, or whose name is free again
    assert run(recorded("archive")) == ["call"]


def test_parts_of_one_recording_have_outputs_of_their_own(tmp_path: Path) -> None:
    recordings = [
        RecordingSpan(Path("a.wav"), 0.0, 1.0),
        RecordingSpan(Path("a.wav"), 1.0, 1.0),
        RecordingSpan(Path("a.wav")),
    ]
    targets = OutputFolder(tmp_path, ["txt"], recordings).targets
    assert [targets[recording].name for recording in recordings] == ["a_00000.00", "a_00001.00", "a"]


@pytest.mark.parametrize("formats", [["txt"], ["srt"], ["TextGrid", "json"]])
def test_one_recording_goes_into_no_folder_that_is_named_like_a_file(formats: list[str], tmp_path: Path) -> None:
    usual = ["txt"] if len(formats) == 1 else formats
    for name in ("talk.xyz", "talk.SRR", "out.v2", "a.b/talk.text"):
        with pytest.raises(InputError, match=f"{name}: not a format; name a file of txt, json, srt, .*, or a folder"):
            output_formats(str(tmp_path / name), formats, usual, 1)


def test_folders_may_have_dots_in_their_names(tmp_path: Path) -> None:
    (tmp_path / "there.v2").mkdir()
    for name in ("there.v2", "new.v2/", "talk.srt/", "a.b/talk", ".hidden", "."):
        assert output_formats(str(tmp_path) + "/" + name, ["txt"], ["txt"], 1) == ["txt"]
    assert output_formats(str(tmp_path / "new.v2"), ["txt"], ["txt"], 2) == ["txt"]
    assert output_formats(str(tmp_path / "new.v2"), ["srt", "json"], ["txt"], 1) == ["srt", "json"]
