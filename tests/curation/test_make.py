"""ds2 make-corpus: broken inputs, kills, resumption, the filter with truth, the report."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.readings import RATE, Reading, read_digits

from ds2.cli.main import main
from ds2.curation import report
from ds2.curation.filter import FilterConfig
from ds2.curation.make import CurationConfig, make_corpus
from ds2.curation.pairs import find_pairs
from ds2.curation.segment import SegmentConfig
from ds2.curation.text_errors import word_counts
from ds2.data.manifest import read_manifest
from ds2.utils.errors import InputError
from ds2.utils.model_names import MODELS


def write_pair(path: Path, seed: int, lines: int = 3) -> Reading:
    reading = read_digits(path, seed, lines)
    path.with_suffix(".txt").write_text(reading.text)
    return reading


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sound recordings in two folders, and a broken one of every kind."""
    folder = tmp_path_factory.mktemp("raw")
    write_pair(folder / "a.wav", 1)
    write_pair(folder / "sub" / "b.flac", 2)
    text = (folder / "a.txt").read_bytes()
    for name in ("empty_text", "other_text", "silent", "clipped", "wrong_rate", "not_utf8", "no_text", "cut_off"):
        shutil.copy(folder / "a.wav", folder / f"{name}.wav")
        (folder / f"{name}.txt").write_bytes(text)
    (folder / "empty_text.txt").write_text("  \n")
    (folder / "other_text.txt").write_text("nine zero nine zero\n" * 4)
    soundfile.write(folder / "silent.wav", np.zeros(5 * RATE), RATE)
    samples, _ = soundfile.read(folder / "a.wav")
    soundfile.write(folder / "clipped.wav", np.clip(samples * 20, -1, 1), RATE)
    data = bytearray((folder / "a.wav").read_bytes())
    data[24:32] = struct.pack("<II", 5 * RATE, 10 * RATE)
    (folder / "wrong_rate.wav").write_bytes(data)
    (folder / "not_utf8.txt").write_bytes("fünf".encode("latin-1"))
    (folder / "no_text.txt").unlink()
    (folder / "cut_off.wav").write_bytes(data[: len(data) // 2])
    soundfile.write(folder / "cut_off.flac", samples, RATE)
    (folder / "cut_off.flac").write_bytes((folder / "cut_off.flac").read_bytes()[:1000])
    (folder / "no_audio.wav").write_text("this is no audio")
    (folder / "no_audio.txt").write_text("one")
    return folder


def test_broken_inputs_are_reported_by_name_and_the_others_go_on(raw: Path, tmp_path: Path) -> None:
    corpus = make_corpus(raw, tmp_path / "corpus", CurationConfig(model="digits"))
    errors = {record.name: record.error for record in corpus.records}
    expected = {
        "empty_text.wav": "the transcript holds no words",
        "other_text.wav": "the transcript does not fit",
        "silent.wav": "silence",
        "wrong_rate.wav": "sample rate",
        "not_utf8.wav": "not valid UTF-8",
        "no_text.wav": "no transcript no_text.txt",
        "cut_off.wav": "cut off",
        "cut_off.flac": "cut off",
        "no_audio.wav": "not an audio file",
    }
    for name, message in expected.items():
        assert message in errors[name]
        assert Path(name).stem in errors[name]
    fine = {name for name, error in errors.items() if not error}
    assert fine == {"a.wav", str(Path("sub") / "b.flac"), "clipped.wav"}
    [clipped] = [record for record in corpus.records if record.name == "clipped.wav"]
    assert any("clipped" in warning for warning in clipped.warnings)
    assert len((tmp_path / "corpus" / "failed.txt").read_text().splitlines()) == len(expected)
    assert all(name in (tmp_path / "corpus" / "report" / "index.html").read_text() for name in errors)


def test_a_recording_whose_name_is_not_utf8_is_reported(tmp_path: Path) -> None:
    write_pair(tmp_path / "raw" / "a.wav", 1)
    (tmp_path / "raw" / os.fsdecode(b"\xff.wav")).write_bytes((tmp_path / "raw" / "a.wav").read_bytes())
    corpus = make_corpus(tmp_path / "raw", tmp_path / "corpus", CurationConfig(model="digits"))
    assert [bool(record.error) for record in corpus.records] == [False, True]
    assert (tmp_path / "corpus" / "failed.txt").read_text().endswith("udcff.wav: its name is not UTF-8; rename it\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_model_warns_of_is_said_once(
    tmp_path: Path, workers: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each worker loads the model, and said it again."""
    for number in range(2):
        write_pair(tmp_path / "raw" / f"{number}.wav", number)
    make_corpus(tmp_path / "raw", tmp_path / "corpus", CurationConfig(model="digits", workers=workers))
    assert sum("knows 10 words and no other" in message for message in caplog.messages) == 1
    errors = capfd.readouterr().err
    assert "ds2: digits knows" not in errors  # as workers write it
    assert errors.count("ds2: compiling") <= 1


def test_segments_are_files_with_their_text(tmp_path: Path) -> None:
    reading = write_pair(tmp_path / "raw" / "a.wav", 5, lines=6)
    make_corpus(tmp_path / "raw", tmp_path / "corpus", CurationConfig(model="digits"))
    kept = read_manifest(tmp_path / "corpus" / "kept.jsonl")
    assert len(kept) > 1
    for utterance in kept:
        start = utterance.extra["start"]
        assert utterance.text == " ".join(reading.said(start, start + utterance.duration))
        assert soundfile.info(utterance.audio_path).duration == pytest.approx(utterance.duration, abs=0.001)
    assert " ".join(utterance.text for utterance in kept) == " ".join(reading.words)


def test_a_second_run_makes_nothing_again_and_a_changed_text_only_its_recording(tmp_path: Path) -> None:
    for number in range(3):
        write_pair(tmp_path / "raw" / f"{number}.wav", number)
    output = tmp_path / "corpus"
    make_corpus(tmp_path / "raw", output, CurationConfig(model="digits"))
    before = tree(output)
    make_corpus(tmp_path / "raw", output, CurationConfig(model="digits"))
    after = tree(output)
    made = [name for name in before if name.startswith(("recordings", "audio", "report/spectrograms"))]
    assert len(made) > 6
    assert all(before[name] == after[name] for name in made)
    text = tmp_path / "raw" / "1.txt"
    text.write_text(text.read_text() + "\n")
    make_corpus(tmp_path / "raw", output, CurationConfig(model="digits"))
    changed = {name for name, stamp in tree(output).items() if name in made and stamp != before[name]}
    assert {Path(name).parts[1].removesuffix(".json") for name in changed if "report" not in name} == {"1.wav"}


COMMAND = [sys.executable, "-m", "ds2", "make-corpus", "--model", "digits"]


@pytest.mark.long
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed when some are done: nothing done is done again, and the result is that of one run."""
    for number in range(5):
        write_pair(tmp_path / "raw" / f"{number}.wav", number, lines=2)
    output = tmp_path / "corpus"
    command = [*COMMAND, str(tmp_path / "raw"), "--output", str(output), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    done = output / "recordings"
    while process.poll() is None and (not done.exists() or len(list(done.glob("*.json"))) < 2):
        time.sleep(0.02)
    process.kill()
    process.wait()
    (output / "recordings" / ".4.wav.json.1.partial").write_text("half")
    finished = {path.name: path.stat().st_mtime_ns for path in done.glob("*.json")}
    assert 2 <= len(finished) < 5
    subprocess.run(command, check=True, capture_output=True)
    assert {name: (done / name).stat().st_mtime_ns for name in finished} == finished
    assert not list(output.rglob("*.partial"))
    make_corpus(tmp_path / "raw", tmp_path / "whole", CurationConfig(model="digits"))
    assert (output / "kept.jsonl").read_text() == (tmp_path / "whole" / "kept.jsonl").read_text()


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    for number in range(4):
        write_pair(tmp_path / "raw" / f"{number}.wav", number, lines=12)
    command = [*COMMAND, str(tmp_path / "raw"), "--output", str(tmp_path / "corpus"), "--workers", "2"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "corpus" / "audio").exists():
        time.sleep(0.02)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("workers outlived the run")


@pytest.mark.long
def test_checked_segments_find_the_faulty_transcripts(tmp_path: Path) -> None:
    """Every fifth line has the words of another: told the truth of some segments, the filter leaves the others out."""
    truth: dict[str, Reading] = {}
    for number in range(2):
        name = f"{number}.wav"
        truth[name] = read_digits(tmp_path / "raw" / name, number, lines=40)
        lines = truth[name].text.splitlines()
        lines[::5] = lines[3::5]
        (tmp_path / "raw" / f"{number}.txt").write_text("\n".join(lines))
    config = CurationConfig(model="digits", segment=SegmentConfig(mean=4.0))
    make_corpus(tmp_path / "raw", tmp_path / "corpus", config)
    checked = tmp_path / "corpus" / "to_check.jsonl"  # corrected in place
    rows = [json.loads(line) for line in checked.read_text().splitlines()]

    def said(row: dict) -> str:
        return " ".join(truth[row["id"].split("/")[0]].said(row["start"], row["start"] + row["duration"]))

    corrected = "".join(json.dumps({"id": row["id"], "text": said(row)}) + "\n" for row in rows[::2])
    checked.write_text(corrected)
    config = replace(config, checked=checked, filter=FilterConfig(wer=0.03))
    corpus = make_corpus(tmp_path / "raw", tmp_path / "corpus", config)
    assert checked.read_text() == corrected
    assert corpus.report is not None
    assert corpus.report.judged_by == "checked segments"
    assert corpus.report.wer_before > 0.08
    rest = [each for each in corpus.kept if each.extra["id"] not in {row["id"] for row in rows[::2]}]
    wrong = sum(each.text != said(each.extra | {"duration": each.duration}) for each in rest)
    assert wrong / len(rest) < 0.1
    assert len(corpus.kept) > 0.5 * len(corpus.segments)
    assert json.loads((tmp_path / "corpus" / "filter.json").read_text())["examples"] == len(rows[::2])


def test_many_tiny_recordings_get_a_bounded_number_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PAGES", 5)
    source = read_digits(tmp_path / "one.wav", 7, lines=1, length=2)
    (tmp_path / "raw").mkdir()
    for number in range(50):
        shutil.copy(tmp_path / "one.wav", tmp_path / "raw" / f"{number:03}.wav")
        (tmp_path / "raw" / f"{number:03}.txt").write_text(source.text)
    corpus = make_corpus(tmp_path / "raw", tmp_path / "corpus", CurationConfig(model="digits"))
    assert len(corpus.kept) == 50
    assert len(list((tmp_path / "corpus" / "report").glob("recording-*.html"))) == 5


def test_folders_without_recordings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="no audio file"):
        find_pairs(tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        find_pairs(tmp_path / "missing")
    assert main(["make-corpus", str(tmp_path), "--output", str(tmp_path / "corpus")]) == 2
    assert main(["make-corpus", str(tmp_path), "--output", str(tmp_path / "corpus"), "--mean", "50"]) == 2
    assert "must be positive and increase" in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


def test_segment_then_filter_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path / "a.wav", 8, lines=30)
    manifest, output = tmp_path / "segments.jsonl", tmp_path / "filtered"
    arguments = ["segment", str(tmp_path / "a.wav"), str(tmp_path / "a.txt"), "--output", str(manifest), "--mean", "3"]
    assert main([*arguments, "--model", "digits"]) == 0
    assert "s on average" in capsys.readouterr().out
    count = len(read_manifest(manifest))
    assert main(["filter", str(manifest), "--output", str(output), "--keep", "0.5", "--model", "digits"]) == 0
    kept = read_manifest(output / "kept.jsonl")
    rejected = [json.loads(line) for line in (output / "rejected.jsonl").read_text().splitlines()]
    assert len(kept) == round(count * 0.5)
    assert len(kept) + len(rejected) == count
    assert (output / "filter.png").stat().st_size > 1000
    assert kept[0].extra["id"].startswith("a.wav@")
    pairs = [word_counts(each.extra["hypothesis"], each.text) for each in kept]
    differ = sum(errors for errors, _ in pairs) / sum(words for _, words in pairs)
    assert f"{differ:.1%} after; the true WER" in capsys.readouterr().out


def test_numbers_are_read_in_the_language_that_is_named(tmp_path: Path) -> None:
    """By a model of one's own, which says nothing of its language."""
    model = shutil.copy(MODELS / "digits.safetensors", tmp_path / "own.safetensors")
    (tmp_path / "raw").mkdir()
    reading = write_pair(tmp_path / "raw" / "a.wav", 1)
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    lines = [" ".join(str(names.index(word)) for word in line.split()) for line in reading.text.splitlines()]
    (tmp_path / "raw" / "a.txt").write_text("\n".join(lines))
    unnamed = make_corpus(tmp_path / "raw", tmp_path / "corpus", CurationConfig(model=str(model)))
    assert "name the language" in unnamed.failed[0]
    command = ["make-corpus", str(tmp_path / "raw"), "--output", str(tmp_path / "corpus"), "--model", str(model)]
    assert main([*command, "--language", "en"]) == 0
    segments = sorted(read_manifest(tmp_path / "corpus" / "to_check.jsonl"), key=lambda segment: segment.extra["id"])
    assert " ".join(segment.text for segment in segments).split() == reading.text.split()


@pytest.mark.parametrize("wer", ["0.1", "0.03"])
@pytest.mark.parametrize("command", ["make-corpus", "filter"])
def test_a_wer_that_would_be_ignored_is_refused(
    command: str, wer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is done or read, the default said aloud as well."""
    arguments = [command, str(tmp_path / "gone"), "--output", str(tmp_path / "corpus"), "--wer", wer]
    assert main(arguments) == 2
    assert capsys.readouterr().err == "ds2: --wer: needs --checked, the true texts of some utterances, or take --keep\n"
    assert main([*arguments, "--keep", "0.5", "--checked", "c.jsonl"]) == 2
    assert capsys.readouterr().err == "ds2: --wer: --keep says how many are kept; give one of the two\n"
    assert not (tmp_path / "corpus").exists()
