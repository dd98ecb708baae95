"""ds2 transcribe: what it prints, what it writes, what it refuses."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.commands import Outcome, assert_refused, write_noise

import ds2
from ds2.cli import standard_streams
from ds2.data.manifest import read_manifest
from ds2.recognition.formats import FORMATS

ENGLISH = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "manifest.jsonl"
MANDARIN = Path(__file__).parent / "mandarin.opus"  # five clips of a speaker of Common Voice zh-CN (CC0), joined


def test_one_file_prints_its_transcript(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav")
    code, output, errors = run("transcribe", path, "--model", tiny_bundle)
    assert (code, errors) == (0, "")
    assert output == ds2.load(tiny_bundle).transcribe(path).text + "\n"
    assert run("transcribe", path, "--model", tiny_bundle, "-o", "-") == (code, output, errors)


def test_several_files_print_their_names(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    paths = [write_noise(tmp_path / f"{name}.wav", seed=ord(name)) for name in "ab"]
    _, output, _ = run("transcribe", *paths, "--model", tiny_bundle)
    assert [line.split("\t")[0] for line in output.splitlines()] == [str(path) for path in paths]


def test_a_recording_without_speech_is_named(run: Callable[..., Outcome], tmp_path: Path) -> None:
    """An empty text on standard output alone would look like a failure."""
    path = tmp_path / "silence.wav"
    soundfile.write(path, np.zeros(16000), 8000)
    code, output, errors = run("transcribe", path, "--model", "digits")
    assert (code, output) == (0, "\n")
    assert errors.endswith(f"ds2: {path}: no speech was found\n")


def test_all_formats_into_a_folder(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    write_noise(tmp_path / "in" / "a.wav")
    write_noise(tmp_path / "in" / "deep" / "a.flac")
    arguments = ("--model", tiny_bundle, "--format", "txt,json,srt,vtt,ctm", "--output", tmp_path / "out")
    assert run("transcribe", tmp_path / "in", *arguments)[0] == 0
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(written) == 10  # two files of one name do not overwrite each other
    assert sum(name.endswith("deep_a.flac.srt") for name in written) == 1


def test_a_slash_at_the_end_makes_a_folder_of_any_name(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    arguments = ("transcribe", write_noise(tmp_path / "talk.wav"), "--model", tiny_bundle, "-o")
    assert_refused(run(*arguments, tmp_path / "talk.xyz"), "talk.xyz: not a format; name a file of txt, json, srt")
    assert not (tmp_path / "talk.xyz").exists()
    assert run(*arguments, f"{tmp_path}/out.v2/")[0] == 0
    assert [path.name for path in (tmp_path / "out.v2").iterdir()] == ["talk.txt"]


def test_outputs_never_overwrite_each_other(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    names = ["x/y/c.wav", "x_y/c.wav", "failed.wav", "d" * 120 + "/" + "e" * 120 + "/c.wav", "f" * 240 + ".wav"]
    texts = []
    for number, name in enumerate(names):
        texts.append(ds2.load(tiny_bundle).transcribe(write_noise(folder / name, 0.3 + number / 10, number)).text)
    (folder / "bad.wav").touch()
    assert run("transcribe", folder, "--model", tiny_bundle, "--output", tmp_path / "out")[0] == 1
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert "bad.wav" in written.pop("failed.txt")
    assert sorted(written.values()) == sorted(text + "\n" for text in texts)
    assert all(len(name) <= 255 for name in written)


def test_a_run_without_failures_leaves_no_report_of_an_earlier_one(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").touch()
    arguments = ("transcribe", tmp_path / "in", "--model", tiny_bundle, "--output", tmp_path / "out")
    assert run(*arguments)[0] == 2
    assert (tmp_path / "out" / "failed.txt").exists()
    write_noise(tmp_path / "in" / "a.wav")
    assert run(*arguments)[0] == 0
    assert not (tmp_path / "out" / "failed.txt").exists()


def test_runs_into_one_folder_keep_the_failures_of_each_other(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    for number in range(4):
        (tmp_path / f"{number}: a.wav").touch()
        arguments = (tmp_path / f"{number}: a.wav", "--model", tiny_bundle, "--output", tmp_path / "out")
        assert run("transcribe", *arguments)[0] == 2
    lines = (tmp_path / "out" / "failed.txt").read_text().splitlines()
    assert [line.startswith(f"{tmp_path}/{number}: a.wav: ") for number, line in enumerate(lines)] == 4 * [True]
    write_noise(tmp_path / "3: a.wav")
    assert run("transcribe", *arguments)[0] == 0
    assert (tmp_path / "out" / "failed.txt").read_text().splitlines() == lines[:3]


def test_name_that_is_not_utf8(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    write_noise(tmp_path / "in" / "a.wav").rename(tmp_path / "in" / os.fsdecode(b"\xff.wav"))
    (tmp_path / "in" / os.fsdecode(b"\xfe.wav")).touch()
    arguments = ("--model", tiny_bundle, "--format", "txt,json", "--output", tmp_path / "out")
    assert run("transcribe", tmp_path / "in", *arguments)[0] == 1
    assert "udcfe.wav" in (tmp_path / "out" / "failed.txt").read_text()
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_all_formats_in_any_case_and_existing_ones_are_skipped(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    write_noise(tmp_path / "in" / "a.wav")
    arguments = (
        "--model",
        tiny_bundle,
        "--format",
        "all",
        "--output",
        tmp_path / "out",
        "--skip-existing",
        "--verbose",
    )
    assert "a.wav: 0.3 s" in run("transcribe", tmp_path / "in", *arguments)[2]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {f".{name}" for name in FORMATS}
    (tmp_path / "out" / "a.txt").write_text("mine")
    write_noise(tmp_path / "in" / "b.wav")
    code, _, errors = run("transcribe", tmp_path / "in", *arguments)
    assert code == 0
    assert "ds2: 1 of 2 transcribed before, 1 to do\n" in errors
    assert "b.wav" in errors
    assert "a.wav" not in errors
    assert (tmp_path / "out" / "a.txt").read_text() == "mine"
    _, output, _ = run("transcribe", tmp_path / "in" / "a.wav", "--model", tiny_bundle, "--format", "textGRID")
    assert output.startswith('File type = "ooTextFile"')


def test_patterns_and_manifests(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 0.6)
    row = {"audio_filepath": "a.wav", "duration": 0.3, "text": "", "offset": 0.3}
    (tmp_path / "m.jsonl").write_text(json.dumps(row))
    _, output, _ = run("transcribe", tmp_path / "*.wav", tmp_path / "m.jsonl", "--model", tiny_bundle)
    assert [line.split("\t")[0] for line in output.splitlines()] == [str(path), f"{path}:0.30-0.60"]


def test_quiet_shows_errors_alone(run: Callable[..., Outcome], tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav")
    (tmp_path / "b.wma").touch()
    hot = ("--model", "digits", "--hot", "spectrogram")
    for arguments, count in (((), 4), (("--quiet",), 0), ((), 4)):
        _, _, errors = run("transcribe", tmp_path, *hot, *arguments)
        assert errors.count("\n") == count
    errors = run("transcribe", path, *hot)[2]
    assert "hot: spectrogram: hardly any effect" in errors
    assert "digits knows 10 words and no other: eight five four" in errors
    assert "gone.wav" in run("transcribe", tmp_path / "gone.wav", "--quiet")[2]


def test_the_first_command_of_the_readme_writes_english_words(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On recordings of sentences, with no option that names a model."""
    first, second, *_ = read_manifest(ENGLISH)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meetings").mkdir()
    for utterance, name in ((first, "call.wav"), (second, "meetings/monday.wav")):
        soundfile.write(name, *soundfile.read(utterance.audio_path))
    code, _, errors = run(*"transcribe call.wav meetings/ --format srt,json --output transcripts".split())
    assert code == 0
    assert "no other" not in errors  # the vocabulary is open
    found = {name: json.loads(Path(f"transcripts/{name}.json").read_text()) for name in ("call", "monday")}
    for utterance, transcript in zip((first, second), found.values(), strict=True):
        assert len(set(utterance.text.split()) & set(transcript["text"].split())) >= 5
        assert transcript["display"][0].isupper()
        assert transcript["display"][-1] in ".?"
    assert run("transcribe", "call.wav")[1] == found["call"]["display"] + "\n"
    ranked = run("transcribe", "call.wav", "--alternatives", "3")[1].splitlines()
    assert ranked[0].partition("\t")[2] == found["call"]["display"]
    assert len({line.partition("\t")[2].lower() for line in ranked}) == 3  # other words, not other points alone
    assert run("transcribe", "call.wav", "--no-punctuate")[1] == found["call"]["text"] + "\n"


def test_mandarin_does_not_sound_like_english_and_english_does(run: Callable[..., Outcome]) -> None:
    code, _, errors = run("transcribe", MANDARIN, ENGLISH.parent)
    assert code == 0
    [line] = errors.splitlines()
    assert line.startswith(f"ds2: {MANDARIN}: does not sound like English: ")


def test_alternatives_in_json_and_refused_where_they_would_be_lost(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    path = write_noise(tmp_path / "a.wav")
    arguments = ("transcribe", path, "--model", tiny_bundle, "--beam", "20", "--alternatives", "2")
    found = json.loads(run(*arguments, "--format", "json")[1])
    assert [sorted(each) for each in found["alternatives"]] == [["probability", "score", "text"]] * 2
    [segment] = found["segment_alternatives"]
    assert segment == {"start": 0.0, "end": found["duration"], "alternatives": found["alternatives"]}
    assert_refused(run(*arguments, "--format", "srt"), "alternatives: the format srt holds one text")
    assert_refused(run(*arguments, "--channels", "separate"), "alternatives: cannot be combined with separate channels")


def test_one_recording_goes_into_the_file_whose_suffix_is_a_format(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    audio, texts = write_noise(tmp_path / "a.wav"), tmp_path / "texts"
    for name, start in (("b.srt", ""), ("c.VTT", "WEBVTT"), ("d.textgrid", "File type"), ("e.json", "{")):
        assert run("transcribe", audio, "--model", tiny_bundle, "--output", texts / name)[:2] == (0, "")
        assert (texts / name).read_text().startswith(start)
    assert sorted(path.name for path in texts.iterdir()) == ["b.srt", "c.VTT", "d.textgrid", "e.json"]
    (texts / "e.json").write_text("as it was")
    run("transcribe", audio, "--model", tiny_bundle, "--output", texts / "e.json", "--skip-existing")
    assert (texts / "e.json").read_text() == "as it was"


def test_a_file_for_several_recordings_or_formats_is_refused_and_a_folder_stays_one(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    audio, other = write_noise(tmp_path / "a.wav"), write_noise(tmp_path / "b.wav")
    outcome = run("transcribe", audio, other, "--model", tiny_bundle, "--output", tmp_path / "x.srt")
    assert_refused(outcome, "--output", "x.srt: one file cannot hold 2 recordings; name a folder")
    outcome = run("transcribe", audio, "--model", tiny_bundle, "--output", tmp_path / "x.srt", "--format", "srt,json")
    assert_refused(outcome, "--output", "x.srt: one file cannot hold srt,json; name a folder")
    (tmp_path / "y.srt").mkdir()
    assert run("transcribe", audio, "--model", tiny_bundle, "--output", tmp_path / "y.srt")[0] == 0
    assert (tmp_path / "y.srt" / "a.txt").exists()


def test_skipping_needs_a_folder(run: Callable[..., Outcome]) -> None:
    assert_refused(run("transcribe", "a.wav", "--skip-existing"), "--skip-existing: needs --output")


def test_standard_input(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_noise(tmp_path / "a.wav").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    _, output, _ = run("transcribe", "-", "--model", tiny_bundle, "--format", "json")
    assert json.loads(output)["duration"] == 0.3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert_refused(run("transcribe", "-", "--model", tiny_bundle), "stdin: empty")
    monkeypatch.setattr(standard_streams, "MOST_INPUT", 5 << 20)
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        assert_refused(run("transcribe", "-", "--model", tiny_bundle), "stdin: more than 5 MiB; write them into a file")


def test_hundred_files_three_of_them_bad(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    for number in range(97):
        write_noise(tmp_path / "in" / f"{number:03}.wav", 0.1, number)
    (tmp_path / "in" / "empty.wav").touch()
    (tmp_path / "in" / "text.wav").write_text("no audio")
    whole = write_noise(tmp_path / "in" / "cut.flac").read_bytes()
    (tmp_path / "in" / "cut.flac").write_bytes(whole[: len(whole) // 2])
    code, _, errors = run("transcribe", tmp_path / "in", "--model", tiny_bundle, "--output", tmp_path / "out")
    assert code == 1
    assert len(list((tmp_path / "out").glob("*.txt"))) == 97 + 1
    report = (tmp_path / "out" / "failed.txt").read_text().splitlines()
    assert len(report) == 3
    for name in ("empty.wav", "text.wav", "cut.flac"):
        assert sum(name in line for line in report) == 1
        assert name in errors
    assert "97 transcribed, 3 failed" in errors


def test_folder_with_sound_for_ffmpeg_tells_of_it(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    write_noise(tmp_path / "in" / "a.wav")
    (tmp_path / "else").mkdir()
    for name in ("b.wma", "c.WMA", "d.avi", "notes.txt"):
        (tmp_path / "in" / name).touch()
        (tmp_path / "else" / name).touch()
    code, _, errors = run("transcribe", tmp_path / "in", "--model", tiny_bundle)
    assert code == 0
    found = ", ".join(str(tmp_path / "in" / name) for name in ("b.wma", "c.WMA", "d.avi"))
    assert errors.startswith(f"ds2: not transcribed: {found}; convert them first: ffmpeg -i b.wma b.wav")
    assert errors.count("\n") == 1
    assert_refused(run("transcribe", tmp_path / "else"), "no audio file in this folder; not transcribed: ", "d.avi")


@pytest.mark.parametrize("kind", ["gone", "empty", "text", "cut", "flac", "none", "nan"])
def test_bad_audio_is_one_line(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"{kind}.wav"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("some text\n" * 50)
    elif kind == "cut":
        whole = write_noise(path, 1.0).read_bytes()
        path.write_bytes(whole[:5000])
    elif kind == "flac":
        soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 8000), 8000, format="FLAC")
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "none":
        soundfile.write(path, np.zeros(0), 8000)
    elif kind == "nan":
        soundfile.write(path, np.full(800, np.nan), 8000, subtype="FLOAT")
    assert_refused(run("transcribe", path, "--model", tiny_bundle), str(path))


def test_folder_without_audio_unknown_format_and_no_file(run: Callable[..., Outcome], tmp_path: Path) -> None:
    assert_refused(run("transcribe", tmp_path), "no audio file")
    assert_refused(run("transcribe", "a.wav", "--format", "doc"), "'doc'", "txt, json, srt, vtt, tsv, ctm")
    assert_refused(run("transcribe", "a.wav", "--format", "txt,srt"), "--output")
    for name in ("srt", "vtt", "tsv", "TextGrid"):
        assert_refused(run("transcribe", "a.wav", "b.wav", "--format", name), f"--format: {name}", "--output")
    assert_refused(run("transcribe"), "at least one audio file")
    assert_refused(run("transcribe", "-", "a.wav"), "standard input")
    assert_refused(run("transcribe", tmp_path / "*.wav"), "*.wav: no file matches this pattern")


def test_output_that_cannot_be_made(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = write_noise(tmp_path / "a.wav")
    outcome = run("transcribe", path, "--model", tiny_bundle, "--output", tmp_path / "file" / "x")
    assert_refused(outcome, "cannot make the folder")
