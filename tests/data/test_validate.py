"""What is wrong with a corpus is found, and what is right is left alone."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ds2.audio.cut_off import remedy
from ds2.cli.main import main
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.data.validate import ValidateConfig, duplicates, examine, examine_all, leaks, write_findings
from ds2.utils.errors import InputError, printable

CONFIG = ValidateConfig()


def kinds(utterance: Utterance) -> set[str]:
    return {finding.kind for finding in examine(utterance, CONFIG).findings}


def write(path: Path, samples: np.ndarray, text: str = "hello there", duration: float | None = None) -> Utterance:
    soundfile.write(path, samples, 8000)
    return Utterance(path, duration or len(samples) / 8000, text, place=f"m:{path.stem}")


NOISE = 0.1 * np.random.default_rng(0).normal(size=8000)


def test_real_recordings_have_no_findings(spoken_digits: Callable[[int], Path]) -> None:
    examined = examine_all(read_manifest(spoken_digits(10)), CONFIG)
    assert examined.findings == []
    assert list(duplicates(examined)) == []


def test_a_cut_off_opus_is_found_and_a_report_names_files_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.opus")
    soundfile.write(os.fsencode(path), NOISE, 8000, format="OGG", subtype="OPUS")
    path.write_bytes(path.read_bytes()[:-100])
    findings = examine(Utterance(path, 1.0, "hello", place="m:1"), CONFIG).findings
    write_findings(tmp_path / "report.jsonl", findings)
    [line] = (tmp_path / "report.jsonl").read_text().splitlines()
    assert json.loads(line)["message"] == printable(f"{path}: cut off, its last page is not whole; {remedy(path)}")


@pytest.mark.parametrize(
    ("kind", "samples", "text", "duration"),
    [
        ("silent", np.zeros(8000), "hello", None),
        ("clipped", np.clip(NOISE * 30, -1, 1), "hello", None),
        ("duration", NOISE, "hello", 2.0),
        ("empty text", NOISE, "  ", None),
        ("damaged text", NOISE, "caf\ufffd", None),
        ("damaged text", NOISE, "caf\x07", None),
        ("too fast", NOISE, "x y" * 20, None),
        ("too short for CTC", NOISE, "aa" * 20, None),
        ("too slow", np.tile(NOISE, 6), "a", None),
    ],
)
def test_each_fault_is_found(tmp_path: Path, kind: str, samples: np.ndarray, text: str, duration: float | None) -> None:
    found = kinds(write(tmp_path / "a.wav", samples, text, duration))
    assert kind in found
    assert kinds(write(tmp_path / "b.wav", NOISE)) == set()


def test_unreadable_audio_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("no audio")
    assert kinds(Utterance(tmp_path / "a.wav", 1.0, "hello")) == {"unreadable"}
    assert kinds(Utterance(tmp_path / "gone.wav", 1.0, "hello")) == {"unreadable"}


def test_copies_are_found_by_samples_and_in_another_coding_or_level(
    tmp_path: Path, spoken_digits: Callable[[int], Path]
) -> None:
    utterances = read_manifest(spoken_digits(8))
    samples, rate = soundfile.read(utterances[5].audio_path)
    soundfile.write(tmp_path / "same.flac", samples, rate)
    soundfile.write(tmp_path / "softer.ogg", samples / 2, rate, format="OGG", subtype="OPUS")
    copies = [
        Utterance(tmp_path / name, utterances[5].duration, "x", place=name) for name in ("same.flac", "softer.ogg")
    ]
    found = list(duplicates(examine_all([*utterances, *copies], CONFIG)))
    also = [(finding.place, finding.message.split()[2].rstrip(":")) for finding in found]
    assert also == [(utterances[5].place, "same.flac"), ("same.flac", "softer.ogg")]


def test_leaks_name_the_utterance_of_the_training_set() -> None:
    def said(text: str, speaker: str, place: str) -> Utterance:
        return Utterance(Path(place), 1.0, text, speaker=speaker, place=place)

    train = [said("one", "x", "t:1"), said("two", "x", "t:2"), said("three", "y", "t:3")]
    test = [said("two", "z", "e:1"), said("four", "y", "e:2"), said("five", "y", "e:3")]
    found = [(finding.kind, finding.place) for finding in leaks({"train": train, "test": test})]
    assert found == [("leaking transcript", "t:2"), ("leaking speaker", "t:3")]
    *_, speaker = leaks({"train": train, "test": test})
    assert "'y' speaks in 1 utterances of train and 2 of test" in speaker.message


def test_clean_manifests_keep_leaking_speakers_and_it_is_said(
    tmp_path: Path, spoken_digits: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    every = [replace(u, text=f"text {at}", speaker="x") for at, u in enumerate(read_manifest(spoken_digits(4)))]
    names = [str(tmp_path / name) for name in ("train.jsonl", "test.jsonl")]
    for name, part in zip(names, (every[:2], every[2:]), strict=True):
        write_manifest(name, part)
    assert main(["data", "validate", *names, "--clean", str(tmp_path / "clean")]) == 1
    shown = capsys.readouterr().out
    assert (
        "4 utterances, 0 with findings: none but leaking speakers\nleaking speakers: 1; --clean keeps their utterances"
        in shown
    )
    assert [len(read_manifest(tmp_path / "clean" / Path(name).name)) for name in names] == [2, 2]


def test_command_reports_and_writes_clean_manifests(
    tmp_path: Path, spoken_digits: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    train = [replace(u, text=f"text {at}", speaker=None) for at, u in enumerate(read_manifest(spoken_digits(4)))]
    broken = write(tmp_path / "silent.wav", np.zeros(8000), "nothing at all")
    test = [write(tmp_path / "new.wav", NOISE, "something else"), train[2]]
    write_manifest(tmp_path / "train.jsonl", [*train, broken])
    write_manifest(tmp_path / "test.jsonl", test)
    names = [str(tmp_path / name) for name in ("train.jsonl", "test.jsonl")]
    report, clean = tmp_path / "findings.jsonl", tmp_path / "clean"
    assert main(["data", "validate", *names, "--report", str(report), "--clean", str(clean)]) == 1
    found = {(row["kind"], row["place"].rpartition("/")[2]) for row in map(json.loads, report.read_text().splitlines())}
    assert found == {
        ("silent", "train.jsonl:5"),
        ("duplicate audio", "train.jsonl:3"),
        ("leaking transcript", "train.jsonl:3"),
    }
    assert "7 utterances, 2 with findings" in capsys.readouterr().out
    assert [u.audio_path.name for u in read_manifest(clean / "train.jsonl")] == ["0.wav", "1.wav", "3.wav"]
    assert main(["data", "validate", *(str(clean / Path(name).name) for name in names)]) == 0


def manifest_of(folder: Path, *durations: float) -> Path:
    """Lines that name the same second of noise, with these durations."""
    soundfile.write(folder / "a.wav", NOISE, 8000)
    rows = [{"audio_filepath": "a.wav", "duration": seconds, "text": "hello there"} for seconds in durations]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "m.jsonl"


@pytest.mark.parametrize(
    ("durations", "kept", "found"),
    [
        ([1.0, 1.0], 2, {(1, "duplicate audio")}),
        ([1.0, 1.0, 1.0], 3, {(1, "duplicate audio"), (2, "duplicate audio")}),
        ([1.0, 9.0], 1, {(2, "duration"), (2, "duplicate audio")}),
        ([9.0, 1.0, 1.0], 3, {(1, "duration"), (1, "duplicate audio"), (2, "duplicate audio")}),
    ],
)
def test_a_line_that_is_there_twice_is_a_finding_and_one_of_each_is_kept(
    tmp_path: Path, durations: list[float], kept: int, found: set[tuple[int, str]]
) -> None:
    """The last one that has nothing else wrong; other commands go on to refuse such a manifest."""
    manifest, report, clean = manifest_of(tmp_path, *durations), tmp_path / "report.jsonl", tmp_path / "clean"
    assert main(["data", "validate", str(manifest), "--report", str(report), "--clean", str(clean)]) == 1
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert {(int(row["place"].removeprefix(f"{manifest}:")), row["kind"]) for row in rows} == found
    assert f"also in {manifest}:{kept}: the same samples" in {row["message"] for row in rows}
    assert [(u.audio_path.name, u.duration) for u in read_manifest(clean / "m.jsonl")] == [("a.wav", 1.0)]
    with pytest.raises(InputError, match=r"m\.jsonl:2: duplicate of .*m\.jsonl:1"):
        read_manifest(manifest)


def test_sounds_too_short_for_an_outline_are_duplicates_where_their_samples_are_the_same(tmp_path: Path) -> None:
    short = [write(tmp_path / f"{name}.wav", NOISE[:800], "a") for name in "ab"]
    [found] = duplicates(examine_all([*short, write(tmp_path / "c.wav", NOISE[800:1600], "a")], CONFIG))
    assert (found.place, found.message) == ("m:a", "also in m:b: the same samples")


def test_what_is_no_manifest_is_still_refused_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = manifest_of(tmp_path, 1.0, 1.0)
    manifest.write_text(manifest.read_text() + "{}\n")
    assert main(["data", "validate", str(manifest)]) == 1
    assert "m.jsonl:3: wrong line: lacks audio_filepath" in capsys.readouterr().out
    manifest.write_text("{}\n")
    assert main(["data", "validate", str(manifest)]) == 2
    assert main(["data", "validate", str(tmp_path / "a.wav")]) == 2
    errors = capsys.readouterr().err
    assert "m.jsonl: the manifest holds no utterance" in errors
    assert "a.wav: is a recording; name a manifest" in errors


def test_many_findings_of_a_kind_hide_no_other(
    tmp_path: Path, spoken_digits: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    every = [replace(u, text=f"text {at}") for at, u in enumerate(read_manifest(spoken_digits(10)))]
    gone = [replace(u, audio_path=u.audio_path.with_name(f"gone{at}.wav")) for at, u in enumerate(every[:9])]
    write_manifest(tmp_path / "m.jsonl", [*gone, replace(every[9], duration=9.0)])
    assert main(["data", "validate", str(tmp_path / "m.jsonl")]) == 1
    shown = capsys.readouterr().out
    assert shown.count(": unreadable: ") == 6
    assert "... and 3 more of this kind: unreadable\n" in shown
    assert "m.jsonl:10: duration: the manifest says 9.00 s" in shown
