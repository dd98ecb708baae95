"""Manifests: round trip, and every mistake named by its line."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds2.data.manifest import check_characters, read_manifest, summary, write_manifest
from ds2.data.utterance import RecordingSpan, Utterance
from ds2.text import Tokenizer
from ds2.utils.errors import InputError

GOOD = {"audio_filepath": "a.wav", "duration": 1.5, "text": "hello"}


def manifest(folder: Path, *lines: object) -> Path:
    path = folder / "m.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_reads_a_line(tmp_path: Path) -> None:
    [utterance] = read_manifest(manifest(tmp_path, {**GOOD, "offset": 2, "speaker": "s1", "take": 3}))
    assert utterance == Utterance(tmp_path / "a.wav", 1.5, "hello", 2.0, "s1", None, {"take": 3})
    assert utterance.place == f"{tmp_path / 'm.jsonl'}:1"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
utterances = st.builds(
    dict,
    duration=st.floats(0.001, 1e5),
    text=texts,
    offset=st.none() | st.floats(0, 1e5),
    speaker=st.none() | texts,
    lang=st.none() | texts,
    extra=st.dictionaries(st.sampled_from(["take", "age"]), st.integers() | texts | st.none()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(utterances, min_size=1, max_size=4))
def test_survives_a_round_trip(tmp_path: Path, rows: list[dict]) -> None:
    written = [Utterance(tmp_path / f"{number}.wav", **row) for number, row in enumerate(rows)]
    write_manifest(tmp_path / "m.jsonl", written)
    assert read_manifest(tmp_path / "m.jsonl") == written


def test_other_keys_never_stand_in_for_the_utterance_s_own(tmp_path: Path) -> None:
    """As where a shard's .json names the audio and the offset that it was cut from."""
    extra = {"audio_filepath": "old.wav", "duration": 9.0, "offset": 5.0, "lang": "xx", "take": 3}
    utterance = Utterance(tmp_path / "a.wav", 1.5, "hello", extra=extra)
    write_manifest(tmp_path / "m.jsonl", [utterance])
    assert read_manifest(tmp_path / "m.jsonl") == [replace(utterance, extra={"take": 3})]


def test_paths_below_the_manifest_are_written_relative(tmp_path: Path) -> None:
    inside, outside = Utterance(tmp_path / "x" / "a.wav", 1.0, "a"), Utterance(Path("/elsewhere/b.wav"), 1.0, "b")
    write_manifest(tmp_path / "m.jsonl", [inside, outside])
    names = [json.loads(line)["audio_filepath"] for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert names == ["x/a.wav", "/elsewhere/b.wav"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"audio_filepath": "a.wav", ', "not valid JSON"),
        ("[1, 2]", "expected an object"),
        ({"duration": 1, "text": ""}, "lacks audio_filepath"),
        ({"audio_filepath": "a.wav", "text": ""}, "lacks duration"),
        ({**GOOD, "text": None}, "text must be a string"),
        ({**GOOD, "duration": "1"}, "duration must be a number"),
        ({**GOOD, "duration": True}, "duration must be a number"),
        ({**GOOD, "text": "\ud800"}, "text holds half a character"),
        ({**GOOD, "speaker": "a\udfff"}, "speaker holds half a character"),
        ({**GOOD, "duration": -1}, "duration must be positive"),
        ({**GOOD, "duration": 0}, "duration must be positive"),
        ({**GOOD, "duration": float("nan")}, "duration must be positive"),
        ({**GOOD, "duration": float("inf")}, "duration must be positive"),
        ({**GOOD, "duration": 10**400}, "duration must be positive"),
        ({**GOOD, "duration": 1e308}, "duration must be positive seconds, up to 1e"),
        ({**GOOD, "offset": 1e308}, "offset must be 0 or more seconds, up to 1e"),
        ({**GOOD, "text": "a" * 1_000_001}, "text must have up to 1,000,000 characters, got 1,000,001"),
        ({**GOOD, "audio_filepath": "a" * 5000}, "audio_filepath must have up to 4,096 characters, got 5,000"),
        ({**GOOD, "speaker": "a" * 5000}, "speaker must have up to 1,000 characters, got 5,000"),
        ({**GOOD, "duration": {"a": "b" * 9999}}, "duration must be a number"),
        ({**GOOD, "offset": -0.1}, "offset must be 0 or more"),
        ({**GOOD, "offset": float("nan")}, "offset must be 0 or more"),
        ('{"duration": 1' + "0" * 5000 + "}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ({**GOOD, "speaker": 7}, 'speaker must be a string, got 7; write it in quotes, "7"'),
    ],
)
def test_mistakes_are_named_by_line(tmp_path: Path, line: object, message: str) -> None:
    path = manifest(tmp_path, {**GOOD, "audio_filepath": "first.wav"}, line)
    with pytest.raises(InputError, match=message) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 200


def test_duplicate_names_both_lines(tmp_path: Path) -> None:
    path = manifest(tmp_path, GOOD, {**GOOD, "audio_filepath": "b.wav"}, {**GOOD, "text": "other"})
    with pytest.raises(InputError, match=f"{path}:3: duplicate of {path}:1"):
        read_manifest(path)


def test_other_offsets_of_one_file_are_no_duplicates(tmp_path: Path) -> None:
    assert len(read_manifest(manifest(tmp_path, {**GOOD, "offset": 0}, {**GOOD, "offset": 1.5}))) == 2


def test_a_part_within_a_part_is_no_duplicate_but_the_same_part_is(tmp_path: Path) -> None:
    part, longer = {**GOOD, "offset": 1}, {**GOOD, "offset": 1, "duration": 3}
    assert len(read_manifest(manifest(tmp_path, part, longer))) == 2
    with pytest.raises(InputError, match=r"m\.jsonl:3: duplicate of .*m\.jsonl:1"):
        read_manifest(manifest(tmp_path, part, longer, part))


def test_a_whole_file_is_a_duplicate_whatever_duration_it_claims(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="duplicate"):
        read_manifest(manifest(tmp_path, GOOD, {**GOOD, "duration": 3}))


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert [utterance.text for utterance in read_manifest(tmp_path / "m.jsonl")] == ["hello"]


def test_file_names_that_are_not_utf_8_survive_a_round_trip(tmp_path: Path) -> None:
    written = [Utterance(tmp_path / os.fsdecode(b"caf\xe9.wav"), 1.0, "naïve")]
    write_manifest(tmp_path / "m.jsonl", written)
    assert read_manifest(tmp_path / "m.jsonl") == written
    assert "naïve" in (tmp_path / "m.jsonl").read_text(encoding="utf-8")


def test_empty_missing_and_other_encodings(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no utterance"):
        read_manifest(manifest(tmp_path, "", ""))
    with pytest.raises(InputError, match="No such file"):
        read_manifest(tmp_path / "gone.jsonl")
    (tmp_path / "prepare.py").touch()
    with pytest.raises(InputError, match=r"train.jsonl: is not there; .*/prepare.py makes it, with .*/data as"):
        read_manifest(tmp_path / "data" / "train.jsonl")
    (tmp_path / "latin.jsonl").write_bytes('{"text": "é"}\n'.encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.jsonl:1: not valid UTF-8"):
        read_manifest(tmp_path / "latin.jsonl")


def test_unknown_characters_name_place_characters_and_count(tmp_path: Path) -> None:
    rows = [{**GOOD, "audio_filepath": f"{n}.wav", "text": text} for n, text in enumerate(["ab", "a!b", "?", "b"])]
    utterances = read_manifest(manifest(tmp_path, *rows))
    with pytest.raises(InputError, match=r"m\.jsonl:2.*'!\?' \(2 of 4 utterances\)"):
        check_characters(utterances, Tokenizer.from_texts(["ab"]))
    check_characters(utterances, Tokenizer.from_texts(["ab!?"]))


def test_summary_by_hand() -> None:
    rows = [Utterance(Path("a"), 1800.0, "a b", speaker="x"), Utterance(Path("b"), 5400.0, "bb")]
    figures = summary(rows)
    assert (figures.utterances, figures.hours, figures.speakers, figures.words) == (2, 2.0, 1, 3)
    assert (figures.shortest, figures.median, figures.longest) == (1800.0, 3600.0, 5400.0)
    assert figures.characters == {"b": 3, "a": 1, " ": 1}


def test_a_segment_of_an_utterance_is_the_file_or_its_part() -> None:
    path = Path("/a.wav")
    assert Utterance(path, 3.0, "one").span == RecordingSpan(path)
    part = Utterance(path, 3.0, "one", offset=1.5).span
    assert part == RecordingSpan(path, 1.5, 3.0)
    assert (str(RecordingSpan(path)), str(part)) == ("/a.wav", "/a.wav:1.50-4.50")
