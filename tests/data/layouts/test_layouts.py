"""Corpora in the layouts of others: read as they are published, written so that others read them."""

import gzip
import io
import json
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import soundfile

from ds2.audio.torchaudio_loader import functional
from ds2.cli.main import main
from ds2.data.convert import convert
from ds2.data.layouts import guess_layout, lhotse
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.recognition.compared_transcripts import read_other_texts
from ds2.utils.errors import InputError, ParameterError

NAMES = {"nemo": "out.jsonl", "lhotse": "cuts.jsonl", "parquet": "out.parquet"}


@pytest.fixture
def digits(spoken_digits: Callable[[int], Path]) -> list[Utterance]:
    return read_manifest(spoken_digits(3))


def converted(source: Path, target: Path, layout: str = "", language: str | None = None) -> list[Utterance]:
    convert(source, target, layout, "nemo", language)
    return read_manifest(target)


def copy_audio(utterance: Utterance, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(target, *soundfile.read(utterance.audio_path))


@pytest.mark.parametrize("name", ["kaldi", "cuts.jsonl", "cuts.jsonl.gz", "table.tsv", "table.parquet"])
def test_what_is_written_reads_back(tmp_path: Path, digits: list[Utterance], name: str) -> None:
    layout = {"kaldi": "kaldi", "table.tsv": "common_voice", "table.parquet": "parquet"}.get(name, "lhotse")
    write_manifest(tmp_path / "in.jsonl", digits)
    assert convert(tmp_path / "in.jsonl", tmp_path / name, "", layout, None) == (3, [])
    assert guess_layout(tmp_path / name) == layout
    back = converted(tmp_path / name, tmp_path / "back.jsonl")
    facts = [(u.text, u.speaker, u.duration) for u in back]
    assert facts == [(u.text, u.speaker, pytest.approx(u.duration, abs=1e-3)) for u in digits]
    before, after = (soundfile.read(rows[2].audio_path)[0] for rows in (digits, back))
    assert (before == after).all()


@pytest.mark.parametrize(("to", "name"), [("kaldi", "kaldi"), ("lhotse", "cuts.jsonl"), ("common_voice", "all.tsv")])
def test_others_find_files_where_the_audio_lies_in_shards(
    tmp_path: Path, digits: list[Utterance], to: str, name: str
) -> None:
    write_manifest(tmp_path / "in.jsonl", digits)
    convert(tmp_path / "in.jsonl", tmp_path / "shards", "", "webdataset", None)
    assert convert(tmp_path / "shards", tmp_path / name, "", to, None) == (3, [])
    back = converted(tmp_path / name, tmp_path / "back.jsonl")
    assert {each.audio_path.resolve().parent for each in back} == {tmp_path / f"{name.removesuffix('.jsonl')}_audio"}
    samples = [soundfile.read(str(each.audio_path))[0] for each in digits]
    found = [soundfile.read(str(each.audio_path))[0] for each in back]
    assert sorted(map(np.ndarray.tobytes, found)) == sorted(map(np.ndarray.tobytes, samples))


@pytest.mark.parametrize(
    ("layout", "ending"), [("lhotse", ".jsonl.gz"), ("parquet", ".parquet"), ("common_voice", ".tsv")]
)
def test_a_name_by_which_a_layout_is_not_known_is_refused(tmp_path: Path, layout: str, ending: str) -> None:
    """At once, before the corpus, here an empty one, is read."""
    (tmp_path / "in.jsonl").touch()
    with pytest.raises(ParameterError, match=rf"output: .*out: {layout} is known by .* name it .*out{ending}$"):
        convert(tmp_path / "in.jsonl", tmp_path / "out", "", layout, None)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("name", ["kaldi", "cuts.jsonl"])
def test_parts_of_recordings_stay_parts(tmp_path: Path, digits: list[Utterance], name: str) -> None:
    path = digits[0].audio_path
    write_manifest(tmp_path / "in.jsonl", [Utterance(path, 0.1, "a", 0.05, "x"), Utterance(path, 0.1, "b", 0.2, "x")])
    convert(tmp_path / "in.jsonl", tmp_path / name, "", "lhotse" if "cuts" in name else "kaldi", None)
    back = converted(tmp_path / name, tmp_path / "back.jsonl")
    assert [(u.text, u.offset, u.duration, u.audio_path) for u in back] == [
        ("a", 0.05, pytest.approx(0.1), path),
        ("b", 0.2, pytest.approx(0.1), path),
    ]


def test_lhotse_itself_reads_our_cuts(tmp_path: Path, digits: list[Utterance]) -> None:
    functional()  # lhotse imports torchaudio, which does not load beside a CPU-only torch unless we have seen to it
    import lhotse

    write_manifest(tmp_path / "in.jsonl", digits)
    convert(tmp_path / "in.jsonl", tmp_path / "cuts.jsonl.gz", "", "lhotse", None)
    cuts = list(lhotse.CutSet.from_jsonl_lazy(tmp_path / "cuts.jsonl.gz"))
    assert [cut.supervisions[0].text for cut in cuts] == [utterance.text for utterance in digits]
    assert [cut.num_samples for cut in cuts] == [soundfile.info(u.audio_path).frames for u in digits]


def test_librispeech_as_published(tmp_path: Path, digits: list[Utterance]) -> None:
    chapter = tmp_path / "LibriSpeech" / "dev-clean" / "84" / "121123"
    for number, utterance in enumerate(digits):
        copy_audio(utterance, chapter / f"84-121123-{number:04}.flac")
    lines = [f"84-121123-{number:04} GO DO YOU HEAR {number}" for number in range(4)]  # one recording is missing
    (chapter / "84-121123.trans.txt").write_text("\n".join(lines) + "\n")
    _, skipped = convert(tmp_path / "LibriSpeech", tmp_path / "dev.jsonl", "", "nemo", "en")
    utterances = read_manifest(tmp_path / "dev.jsonl")
    assert [utterance.text for utterance in utterances] == [f"go do you hear {n}" for n in ("zero", "one", "two")]
    assert {(u.speaker, u.extra["chapter"]) for u in utterances} == {("84", "121123")}
    assert len(skipped) == 1
    assert "84-121123-0003.flac" in skipped[0]


def test_tables_of_common_voice_in_one_folder_keep_their_own_recordings(
    tmp_path: Path, digits: list[Utterance]
) -> None:
    """Recordings of the same name, and one whose name has blanks: a table has fields without."""
    tables = {}
    for number, (name, file) in enumerate([("train", "0.wav"), ("dev", "0.wav"), ("test", "0  a\tb.wav")]):
        sound = tmp_path / name / file
        copy_audio(digits[number], sound)
        write_manifest(tmp_path / f"{name}.jsonl", [replace(digits[number], audio_path=sound)])
        tables[tmp_path / "cv" / f"{name}.tsv"] = sound
        convert(tmp_path / f"{name}.jsonl", tmp_path / "cv" / f"{name}.tsv", "nemo", "common_voice", None)
    for table, sound in tables.items():
        convert(table, tmp_path / "back.jsonl", "common_voice", "nemo", None)
        [utterance] = read_manifest(tmp_path / "back.jsonl")
        assert utterance.audio_path.read_bytes() == sound.read_bytes()


def test_common_voice_as_published(tmp_path: Path, digits: list[Utterance]) -> None:
    """Its tables are not quoted: a quotation mark that nothing closes is a character of the sentence."""
    copy_audio(digits[0], tmp_path / "de" / "clips" / "a.flac")
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\n"
    (tmp_path / "de" / "train.tsv").write_text(header + 'c1\ta.flac\t"Grüße, Jürgen!\t2\t0\tforties\t\t\tde\n')
    [utterance] = converted(tmp_path / "de" / "train.tsv", tmp_path / "m.jsonl", language="de")
    assert (utterance.text, utterance.speaker, utterance.lang) == ("grüße jürgen", "c1", "de")
    assert utterance.extra == {"age": "forties", "up_votes": "2", "down_votes": "0"}
    with pytest.raises(InputError, match=r"name one of its tables \(train\.tsv\)"):
        convert(tmp_path / "de", tmp_path / "x.jsonl", "common_voice", "nemo", None)


def test_commands_in_wav_scp_are_read_as_their_file_and_never_run(tmp_path: Path, digits: list[Utterance]) -> None:
    copy_audio(digits[0], tmp_path / "k" / "wav" / "a.flac")
    (tmp_path / "k" / "wav.scp").write_text(f"u1 touch {tmp_path}/ran; flac -dcs wav/a.flac |\n")
    (tmp_path / "k" / "text").write_text("u1 zero\n")
    [utterance] = converted(tmp_path / "k", tmp_path / "m.jsonl")
    assert utterance.audio_path == tmp_path / "k" / "wav" / "a.flac"
    assert not (tmp_path / "ran").exists()


def test_lhotse_cut_with_several_supervisions_gives_several_utterances(tmp_path: Path, digits: list[Utterance]) -> None:
    soundfile.write(tmp_path / "r.wav", np.resize(soundfile.read(digits[0].audio_path)[0], 80000), 8000)
    source = {"type": "file", "channels": [0], "source": str(tmp_path / "r.wav")}
    recording = {"id": "r", "sources": [source], "sampling_rate": 8000, "num_samples": 80000, "duration": 10.0}
    supervisions = [
        {"id": f"s{at}", "recording_id": "r", "start": at, "duration": 0.5, "channel": 0, "text": f"word{at}"}
        for at in (0, 1)
    ]
    cut = {"id": "c", "start": 2.0, "duration": 2.0, "channel": 0, "supervisions": supervisions}
    with gzip.open(tmp_path / "cuts.jsonl.gz", "wt") as file:
        file.write(json.dumps({**cut, "recording": recording, "type": "MonoCut"}) + "\n")
    back = converted(tmp_path / "cuts.jsonl.gz", tmp_path / "m.jsonl")
    assert [(u.text, u.offset, u.duration) for u in back] == [("word0", 2.0, 0.5), ("word1", 3.0, 0.5)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cuts.jsonl", '{"id": "c"}\n', "cuts.jsonl:1: not a cut"),
        ("cuts.jsonl", '{"recording": {"sources": [7]}}\n', "cuts.jsonl:1: not a cut"),
        (
            "cuts.jsonl",
            '{"recording": {"sources": [{}]}, "supervisions": [{"start": 0.5, "duration": 1}], '
            f'"start": 1{400 * "0"}}}\n',
            "cuts.jsonl:1: not a cut",
        ),
        ("m.jsonl", "{}\n", "m.jsonl:1: expected an object"),
        ("t.tsv", "path\tduration\n", "t.tsv:1: lacks a column of the name text, sentence"),
        ("t.csv", "path,wav,text\n", "t.csv:1: has 2 columns of the name audio_filepath"),
        ("t.csv", "path,text\na.wav,b,c\n", "t.csv:2: expected 2 fields as in the header, got 3"),
        ("t.tsv", "x" * 500_000 + "\n", "t.tsv:1: not a table"),
        ("t.tsv", f"path\tsentence\na.mp3\tb\n{'x' * 500_000}\ty\n", "t.tsv:3: not a table"),
        ("t.parquet", "PAR1", "not a readable parquet table"),
        ("x.txt", "", "looks like none of"),
    ],
)
def test_what_is_not_such_a_layout_is_refused_by_name(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        convert(tmp_path / name, tmp_path / "out.jsonl", "", "nemo", None)
    assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(InputError, match=r"gone: cannot be read"):
        convert(tmp_path / "gone", tmp_path / "out.jsonl", "", "nemo", None)


@pytest.mark.parametrize("wrong", [{"duration": "x"}, {"duration": 10**400}, {"speaker": ["x"]}, {"language": ["x"]}])
def test_a_cut_whose_values_have_other_types_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    supervision = {"id": "s", "start": 0.0, "duration": 0.5, "text": "a", **wrong}
    recording = {"sources": [{"source": "a.wav", "channels": [0]}], "duration": 9.0}
    cut = {"start": 2.0, "supervisions": [supervision], "recording": recording}
    (tmp_path / "cuts.jsonl").write_text(json.dumps(cut) + "\n")
    with pytest.raises(InputError, match=r"cuts\.jsonl:1: not a cut"):
        list(lhotse.read(tmp_path / "cuts.jsonl", tmp_path))


def test_a_name_that_is_too_long_is_missing(tmp_path: Path) -> None:
    for name, line in {"wav.scp": f"r1 {'9' * 5000}.wav", "text": "r1 hello"}.items():
        (tmp_path / name).write_text(line + "\n")
    with pytest.raises(InputError, match="9999"):
        convert(tmp_path, tmp_path / "out.jsonl", "kaldi", "nemo", None)


def test_a_command_with_an_open_quotation_mark_is_named(tmp_path: Path) -> None:
    for name, line in {"wav.scp": "r1 flac -dcs 'a.flac |", "text": "r1 hello"}.items():
        (tmp_path / name).write_text(line + "\n")
    with pytest.raises(InputError, match=r"wav\.scp: r1: not a command"):
        convert(tmp_path, tmp_path / "out.jsonl", "kaldi", "nemo", None)


def test_kaldi_segments_that_never_end_are_left_out(tmp_path: Path, digits: list[Utterance]) -> None:
    path = digits[0].audio_path
    tables = {"wav.scp": f"r1 {path}", "text": "u1 a\nu2 b\nu3 c", "segments": "u1 r1 0 inf\nu2 r1 nan 1\nu3 r1 0 0.2"}
    for name, line in tables.items():
        (tmp_path / name).write_text(line + "\n")
    count, skipped = convert(tmp_path, tmp_path / "out.jsonl", "kaldi", "nemo", None)
    assert (count, len(skipped)) == (1, 2)


def test_kaldi_segments_must_name_a_recording(tmp_path: Path) -> None:
    for name, line in {"wav.scp": "r1 a.wav", "text": "u1 hello", "segments": "u1 r2 0.0 1.0"}.items():
        (tmp_path / name).write_text(line + "\n")
    with pytest.raises(InputError, match=r"u1 is in no recording of wav\.scp"):
        convert(tmp_path, tmp_path / "out.jsonl", "kaldi", "nemo", None)


def test_hugging_face_columns_of_other_names(tmp_path: Path, digits: list[Utterance]) -> None:
    audio = {"bytes": digits[0].audio_path.read_bytes(), "path": "clip.wav"}
    rows = [{"audio": audio, "sentence": "hello", "client_id": 7, "accent": "x"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train-0.parquet")
    [utterance] = converted(tmp_path, tmp_path / "m.jsonl")
    assert (utterance.text, utterance.speaker, utterance.extra) == ("hello", "7", {"accent": "x"})
    assert utterance.audio_path.parent == tmp_path / "m_audio"


def test_a_table_that_has_changed_is_read_anew(tmp_path: Path, digits: list[Utterance]) -> None:
    for utterance in digits[:2]:
        rows = [{"audio": {"bytes": utterance.audio_path.read_bytes(), "path": "a.wav"}, "text": utterance.text}]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
        [back] = converted(tmp_path / "t.parquet", tmp_path / "m.jsonl")
        assert back.audio_path.read_bytes() == utterance.audio_path.read_bytes()


def test_a_row_without_audio_is_named(tmp_path: Path, digits: list[Utterance]) -> None:
    audio = {"bytes": digits[0].audio_path.read_bytes(), "path": "a.wav"}
    rows = [{"audio": audio, "text": "zero"}, {"audio": None, "text": "one"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet: row 1: holds neither audio nor its path"):
        convert(tmp_path / "t.parquet", tmp_path / "m.jsonl", "", "nemo", None)


@pytest.mark.parametrize("audio", [5, [1, 2], {"bytes": 5, "path": "a.wav"}, {"path": 7}, "a.wav"])
def test_audio_of_other_types_is_named(tmp_path: Path, audio: object) -> None:
    table = pyarrow.Table.from_pylist([{"audio": audio, "text": "zero"}])
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet:.* audio must hold bytes and a path"):
        convert(tmp_path / "t.parquet", tmp_path / "m.jsonl", "", "nemo", None)


def stereo(path: Path, utterance: Utterance) -> Utterance:
    samples, rate = soundfile.read(utterance.audio_path)
    soundfile.write(path, np.column_stack([samples, samples / 2]), rate)
    return replace(utterance, audio_path=path)


def test_all_channels_of_a_recording_are_one_cut(tmp_path: Path, digits: list[Utterance]) -> None:
    functional()
    import lhotse

    write_manifest(tmp_path / "in.jsonl", [stereo(tmp_path / "a.wav", digits[0])])
    convert(tmp_path / "in.jsonl", tmp_path / "cuts.jsonl", "", "lhotse", None)
    [cut] = lhotse.CutSet.from_jsonl_lazy(tmp_path / "cuts.jsonl")
    assert cut.load_audio().shape[0] == 2
    assert cut.supervisions[0].channel == [0, 1]
    assert [u.text for u in converted(tmp_path / "cuts.jsonl", tmp_path / "m.jsonl")] == ["zero"]


def test_a_cut_of_one_of_several_channels_is_refused(tmp_path: Path, digits: list[Utterance]) -> None:
    write_manifest(tmp_path / "in.jsonl", [stereo(tmp_path / "a.wav", digits[0])])
    convert(tmp_path / "in.jsonl", tmp_path / "cuts.jsonl", "", "lhotse", None)
    cut = json.loads((tmp_path / "cuts.jsonl").read_text())
    (tmp_path / "cuts.jsonl").write_text(json.dumps({**cut, "type": "MonoCut", "channel": 1}))
    with pytest.raises(InputError, match=r"cuts\.jsonl:1: not a cut .*1 of 2 channels"):
        convert(tmp_path / "cuts.jsonl", tmp_path / "m.jsonl", "", "nemo", None)


@pytest.mark.parametrize("command", ["sph2pipe -f wav -p -c 2 a.sph |", "sox a.wav -t wav - remix 1 |"])
def test_commands_that_pick_a_channel_are_refused(tmp_path: Path, command: str) -> None:
    (tmp_path / "wav.scp").write_text(f"u1 {command}\n")
    (tmp_path / "text").write_text("u1 zero\n")
    with pytest.raises(InputError, match=r"wav\.scp: u1: picks a channel"):
        convert(tmp_path, tmp_path / "m.jsonl", "", "nemo", None)


def test_a_command_that_mixes_all_channels_is_read_as_its_file(tmp_path: Path, digits: list[Utterance]) -> None:
    copy_audio(digits[0], tmp_path / "a.wav")
    (tmp_path / "wav.scp").write_text("u1 sox a.wav -r 16k -c 1 -t wav - |\n")
    (tmp_path / "text").write_text("u1 zero\n")
    assert len(converted(tmp_path, tmp_path / "m.jsonl")) == 1


def nemo(folder: Path, *rows: dict) -> Path:
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_parts_that_their_file_does_not_hold_are_left_out(tmp_path: Path, digits: list[Utterance]) -> None:
    here = {"audio_filepath": str(digits[0].audio_path), "duration": 0.1, "text": "zero", "offset": 0.05}
    source = nemo(tmp_path, here, {**here, "offset": 5.0}, {**here, "audio_filepath": "gone.wav"})
    count, skipped = convert(source, tmp_path / "m.jsonl", "", "nemo", None)
    assert count == 1
    assert "holds no samples from 5.00 s on" in skipped[0]
    assert "gone.wav: cannot be read" in skipped[1]


def test_the_same_audio_again_is_left_out(tmp_path: Path, digits: list[Utterance]) -> None:
    row = {"audio_filepath": str(digits[0].audio_path), "duration": 0.5, "text": "zero", "lang": 7}
    source = nemo(tmp_path, row, {**row, "text": "one"})
    _, skipped = convert(source, tmp_path / "m.jsonl", "", "nemo", None)
    assert [line.replace(str(source), "m") for line in skipped] == ["m:2: duplicate of m:1, the same audio again"]
    assert [(u.text, u.lang) for u in read_manifest(tmp_path / "m.jsonl")] == [("zero", "7")]


@pytest.mark.parametrize(("key", "value"), [("offset", -1.0), ("offset", "x"), ("duration", "abc"), ("duration", -1)])
def test_impossible_parts_are_named_by_line(tmp_path: Path, key: str, value: object) -> None:
    source = nemo(tmp_path, {"audio_filepath": "a.wav", "offset": 0.0, "duration": 1.0, "text": "a", key: value})
    with pytest.raises(InputError, match=rf"in\.jsonl:1: {key} must be 0 or more seconds"):
        convert(source, tmp_path / "m.jsonl", "", "nemo", None)


def test_line_separators_within_a_text_end_no_line(tmp_path: Path, digits: list[Utterance]) -> None:
    source = nemo(
        tmp_path, {"audio_filepath": str(digits[0].audio_path), "duration": 0.5, "text": "one\u2028two\nthree"}
    )
    assert [u.text for u in converted(source, tmp_path / "m.jsonl")] == ["one\u2028two\nthree"]
    convert(source, tmp_path / "k", "", "kaldi", None)
    assert (tmp_path / "k" / "text").read_text().count("\n") == 1
    assert [u.text for u in converted(tmp_path / "k", tmp_path / "back.jsonl")] == ["one two three"]


@pytest.mark.parametrize(
    "parts",
    [
        {"json": b'{"text": '},
        {"json": b"[1]"},
        {"json": b"[" * 100_000},
        {"json": b"\xff\xfe"},
        {"txt": b"\xff\xfe"},
    ],
)
def test_broken_facts_in_a_shard_are_named(tmp_path: Path, digits: list[Utterance], parts: dict[str, bytes]) -> None:
    pack(tmp_path / "a.tar", {"wav": digits[0].audio_path.read_bytes(), **parts})
    with pytest.raises(InputError, match=r"a\.tar: 0: \.json is not a JSON object, or \.txt not valid UTF-8"):
        convert(tmp_path / "a.tar", tmp_path / "m.jsonl", "", "nemo", None)


def test_facts_in_a_shard_may_be_of_any_type_and_sph_is_audio(tmp_path: Path, digits: list[Utterance]) -> None:
    """The audio says how long it is."""
    soundfile.write(tmp_path / "a.sph", *soundfile.read(digits[0].audio_path), format="NIST")
    values = {"text": "zero", "speaker": 5, "lang": 3, "duration": "long", "take": 2}
    pack(tmp_path / "a.tar", {"sph": (tmp_path / "a.sph").read_bytes(), "json": json.dumps(values).encode()})
    [utterance] = converted(tmp_path / "a.tar", tmp_path / "m.jsonl")
    assert (utterance.speaker, utterance.lang, utterance.extra) == ("5", "3", {"take": 2})
    assert utterance.duration == pytest.approx(digits[0].duration, abs=1e-3)


def pack(path: Path, parts: dict[str, bytes]) -> None:
    """A tar of one sample, 0.SUFFIX for each part."""
    with tarfile.open(path, "w") as tar:
        for suffix, data in parts.items():
            member = tarfile.TarInfo(f"0.{suffix}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def test_damaged_cuts_are_named(tmp_path: Path) -> None:
    (tmp_path / "cuts.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "cuts.jsonl").write_bytes(b"\xff\n")
    for name, why in (("cuts.jsonl.gz", "Not a gzipped file"), ("cuts.jsonl", "not valid UTF-8")):
        with pytest.raises(InputError, match=rf"{name}: .*{why}"):
            convert(tmp_path / name, tmp_path / "m.jsonl", "", "nemo", None)


def test_kaldi_knows_no_speaker_where_there_was_none(tmp_path: Path, digits: list[Utterance]) -> None:
    """Its tables then name the utterance, which is nobody: a split by speaker would divide one reader."""
    write_manifest(tmp_path / "in.jsonl", [replace(digit, speaker=None) for digit in digits[:2]] + digits[2:])
    convert(tmp_path / "in.jsonl", tmp_path / "k", "", "kaldi", None)
    speakers = [each.speaker for each in converted(tmp_path / "k", tmp_path / "m.jsonl")]
    assert Counter(speakers) == {None: 2, digits[2].speaker: 1}


@pytest.mark.parametrize("to", ["kaldi", "common_voice", "lhotse", "parquet"])
def test_a_name_that_is_not_utf8_stands_in_no_layout_of_others(
    tmp_path: Path, digits: list[Utterance], to: str
) -> None:
    odd = digits[0].audio_path.rename(digits[0].audio_path.with_name(os.fsdecode(b"\xff.wav")))
    write_manifest(tmp_path / "in.jsonl", [replace(digits[0], audio_path=odd), *digits[1:]])
    assert odd in {u.audio_path for u in converted(tmp_path / "in.jsonl", tmp_path / "m.jsonl")}
    target = tmp_path / NAMES.get(to, "out.tsv")
    count, [line] = convert(tmp_path / "in.jsonl", target, "", to, None)
    assert (count, line) == (2, f"{odd}: its name is not UTF-8, which {to} cannot hold; rename it")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("t.csv", ["path,text,gender", 'a.flac,"one, two",f', "", "sub/b.flac,three,", "gone.flac,four,"]),
        ("t.csv", ["transcript;wav_filename;gender", "one, two;a.flac;f", "three;sub/b.flac;"]),
        ("t.tsv", ["file\tsentence\tgender", "a.flac\tone, two\tf", "sub/b.flac\tthree\t"]),
    ],
)
def test_a_table_with_a_path_and_a_text_column(
    tmp_path: Path, digits: list[Utterance], name: str, lines: list[str]
) -> None:
    """Durations come from the audio, other columns survive, and a missing file is left out."""
    copy_audio(digits[0], tmp_path / "a.flac")
    copy_audio(digits[1], tmp_path / "sub" / "b.flac")
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    first, second = converted(tmp_path / name, tmp_path / "m.jsonl")
    assert (first.text, first.extra, first.audio_path) == ("one, two", {"gender": "f"}, tmp_path / "a.flac")
    assert (second.text, second.extra) == ("three", {})
    assert [first.duration, second.duration] == [pytest.approx(u.duration, abs=1e-3) for u in digits[:2]]


def test_offsets_in_a_table_name_parts(tmp_path: Path, digits: list[Utterance]) -> None:
    copy_audio(digits[0], tmp_path / "a.flac")
    (tmp_path / "t.csv").write_text("path,text,offset,duration\na.flac,one,0.1,0.2\n")
    [part] = converted(tmp_path / "t.csv", tmp_path / "m.jsonl")
    assert (part.offset, part.duration) == (0.1, 0.2)


@pytest.mark.parametrize("place", ["", "metadata.csv"])
def test_ljspeech_as_published(tmp_path: Path, digits: list[Utterance], place: str) -> None:
    """The third field has numbers as words; quotation marks are characters."""
    copy_audio(digits[0], tmp_path / "voice" / "wavs" / "LJ001-0001.wav")
    (tmp_path / "voice" / "metadata.csv").write_text('LJ001-0001|in "1450|in "fourteen fifty\n')
    [utterance] = converted(tmp_path / "voice" / place, tmp_path / "m.jsonl")
    assert utterance.text == 'in "fourteen fifty'
    assert utterance.duration == pytest.approx(digits[0].duration, abs=1e-3)


def test_recordings_with_their_texts_beside_them(tmp_path: Path, digits: list[Utterance]) -> None:
    for number, name in enumerate(("a.wav", "x/b.flac", "x/c.wav")):
        copy_audio(digits[number], tmp_path / "in" / name)
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "in" / "x" / "b.lab").write_text("three")
    count, [skipped] = convert(tmp_path / "in", tmp_path / "m.jsonl", "", "nemo", None)
    assert (count, skipped) == (2, f"{tmp_path / 'in' / 'x' / 'c.wav'}: no text")
    assert [utterance.text for utterance in read_manifest(tmp_path / "m.jsonl")] == ["one two", "three"]


def test_a_folder_of_common_voice_names_its_tables(tmp_path: Path) -> None:
    (tmp_path / "de" / "clips").mkdir(parents=True)
    (tmp_path / "de" / "dev.tsv").touch()
    with pytest.raises(InputError, match=r"name one of its tables \(dev\.tsv\)"):
        convert(tmp_path / "de", tmp_path / "x.jsonl", "", "nemo", None)


def test_a_manifest_without_durations_names_the_command_that_fills_them_in(
    tmp_path: Path, digits: list[Utterance]
) -> None:
    copy_audio(digits[0], tmp_path / "a.flac")
    (tmp_path / "in.jsonl").write_text('{"audio_filepath": "a.flac", "text": "one"}\n')
    with pytest.raises(InputError, match="lacks duration; ds2 data convert reads it from the audio"):
        read_manifest(tmp_path / "in.jsonl")
    [utterance] = converted(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert utterance.duration == pytest.approx(digits[0].duration, abs=1e-3)


def test_other_keys_become_columns_or_are_named(
    tmp_path: Path, digits: list[Utterance], caplog: pytest.LogCaptureFixture
) -> None:
    """A table in Parquet holds plain values of one type; what another layout has no place for is said."""
    extra = [{"source": "book", "page": number, "mixed": number or "none", "id": f"u{number}"} for number in range(2)]
    utterances = [replace(each, extra=own, lang="en") for each, own in zip(digits[:2], extra, strict=True)]
    write_manifest(tmp_path / "m.jsonl", utterances)
    convert(tmp_path / "m.jsonl", tmp_path / "t.parquet", "", "parquet", None)
    assert "parquet has no place for these keys, they are left out: mixed" in caplog.text
    convert(tmp_path / "t.parquet", tmp_path / "back.jsonl", "", "nemo", None)
    back = read_manifest(tmp_path / "back.jsonl")
    assert [each.extra for each in back] == [{key: own[key] for key in ("source", "page", "id")} for own in extra]
    assert {each.lang for each in back} == {"en"}
    for layout, lost in (("kaldi", "lang, mixed, page, source"), ("common_voice", "id, mixed, page, source")):
        convert(tmp_path / "m.jsonl", tmp_path / layout / "t.tsv", "", layout, None)
        assert f"{layout} has no place for these keys, they are left out: {lost}" in caplog.text


def test_a_bad_row_leaves_out_itself_alone(tmp_path: Path, digits: list[Utterance]) -> None:
    """A row with too few fields, a text that is not UTF-8, and a text without a recording are listed."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate("ab"):
        (folder / f"{name}.flac").write_bytes(digits[number].audio_path.read_bytes())
    (folder / "t.csv").write_text("path,text,speaker\na.flac,one,x\nb.flac\n")
    count, skipped = convert(folder / "t.csv", tmp_path / "m.jsonl", "", "nemo", None)
    assert (count, skipped) == (1, [f"{folder / 't.csv'}:3: expected 3 fields as in the header, got 1"])
    for name, text in (("a", b"one"), ("b", b"caf\xe9"), ("c", b"three")):
        (folder / f"{name}.txt").write_bytes(text)
    count, skipped = convert(folder, tmp_path / "n.jsonl", "", "nemo", None)
    assert count == 1
    assert skipped[0].startswith(f"{folder / 'b.txt'}: not valid UTF-8")
    assert skipped[1:] == [f"{folder / 'c.txt'}: no recording beside it"]


def test_the_report_of_transcribe_is_no_text_of_a_recording(tmp_path: Path, digits: list[Utterance]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(digits[0].audio_path, folder / "a.wav")
    (folder / "broken.wav").touch()
    assert main(["transcribe", str(folder), "--model", "digits", "--output", str(folder)]) == 1
    assert (folder / "failed.txt").exists()
    count, skipped = convert(folder, tmp_path / "m.jsonl", "", "nemo", None)
    assert (count, skipped) == (1, [f"{folder / 'broken.wav'}: no text"])


def test_transcripts_of_ds2_are_a_corpus(tmp_path: Path, digits: list[Utterance]) -> None:
    """What a model heard in recordings is trained on, or read by a person, with its confidence beside it."""
    folder = tmp_path / "transcripts"
    audio = [str(digit.audio_path) for digit in digits]
    assert (
        main(["transcribe", *audio, "--model", "digits", "--format", "json", "--output", str(folder), "--quiet"]) == 0
    )
    assert guess_layout(folder) == "transcripts"
    (folder / "z.json").write_text('{"file": "a.wav"}')
    count, skipped = convert(folder, tmp_path / "said.jsonl", "", "nemo", None)
    assert count == 3
    assert [line.partition(" (")[0] for line in skipped] == [
        f"{folder / 'z.json'}: not a transcript in JSON by ds2 transcribe"
    ]
    said = read_manifest(tmp_path / "said.jsonl")
    assert [(each.audio_path, each.text) for each in said] == [(each.audio_path, each.text) for each in digits]
    assert all(0.5 < each.extra["confidence"] <= 1 for each in said)


def test_a_transcript_of_a_recording_that_is_named_from_another_folder_says_so(tmp_path: Path) -> None:
    said = {"file": "calls/a.wav", "text": "one", "duration": 1.0, "segments": [], "words": []}
    (tmp_path / "a.json").write_text(json.dumps(said))
    remedy = "a.json: no calls/a.wav from here; run it in the folder in which ds2 transcribe ran"
    with pytest.raises(InputError, match=remedy):
        convert(tmp_path, tmp_path / "said.jsonl", "", "nemo", None)


def test_transcripts_of_spans_are_rows_of_their_recording(tmp_path: Path, digits: list[Utterance]) -> None:
    """A manifest with offsets was transcribed: a transcript is called after its span."""
    sound = [soundfile.read(digit.audio_path) for digit in digits]
    soundfile.write(tmp_path / "long.wav", np.concatenate([samples for samples, _ in sound]), sound[0][1])
    starts = np.cumsum([0.0, *(round(digit.duration, 2) for digit in digits)])
    spans = [
        Utterance(tmp_path / "long.wav", round(digit.duration, 2), digit.text, float(start))
        for digit, start in zip(digits, starts, strict=False)
    ]
    write_manifest(tmp_path / "spans.jsonl", spans)
    folder = tmp_path / "transcripts"
    command = ["transcribe", str(tmp_path / "spans.jsonl"), "--model", "digits", "--format", "json", "--quiet"]
    assert main([*command, "--output", str(folder)]) == 0
    assert convert(folder, tmp_path / "said.jsonl", "", "nemo", None) == (3, [])
    said = sorted(read_manifest(tmp_path / "said.jsonl"), key=lambda each: each.offset or 0.0)
    assert [(each.audio_path, each.text) for each in said] == [(each.audio_path, each.text) for each in spans]
    for found, expected in zip(said, spans, strict=True):
        assert found.offset == pytest.approx(expected.offset, abs=0.01)
        assert found.duration == pytest.approx(expected.duration, abs=0.011)


@pytest.mark.parametrize("elsewhere", [".", "deep/er", "calls"])
def test_recordings_are_found_from_any_folder(
    tmp_path: Path, digits: list[Utterance], monkeypatch: pytest.MonkeyPatch, elsewhere: str
) -> None:
    """Transcripts name them as they were typed, and are read from another folder, also after all were moved."""
    (tmp_path / "old" / "calls").mkdir(parents=True)
    name = Path(shutil.copy(digits[0].audio_path, tmp_path / "old" / "calls")).name
    monkeypatch.chdir(tmp_path / "old")
    command = ["transcribe", f"calls/{name}", "--model", "digits", "--format", "json", "--output", "said/json/"]
    assert main([*command, "--quiet"]) == 0
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "new" / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "new" / elsewhere)
    assert convert(tmp_path / "new" / "said", tmp_path / "m.jsonl", "", "nemo", None) == (1, [])
    [found] = read_manifest(tmp_path / "m.jsonl")
    assert found.audio_path.samefile(tmp_path / "new" / "calls" / name)


def test_transcripts_of_spark_are_a_corpus(tmp_path: Path, digits: list[Utterance]) -> None:
    """As ds2 spark transcribe --format json writes them: a line each, its path a URI; a first part may be empty."""
    folder, path = tmp_path / "out", digits[0].audio_path
    word = {"text": "one", "start": 0.1, "end": 0.2, "confidence": 0.75}
    lines: list[dict[str, object]] = [
        {"path": f"file:{path}", "transcript": {"text": "one", "words": [word], "duration": digits[0].duration}},
        {"path": f"file:{tmp_path}/b.wav", "transcript": {"text": "", "words": [], "duration": 1.0}},
        {"path": f"file:{tmp_path}/c.wav", "error": f"file:{tmp_path}/c.wav: empty, no audio received"},
    ]
    folder.mkdir()
    (folder / "part-00000-1f-c000.json").touch()
    (folder / "part-00001-1f-c000.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    count, skipped = convert(folder, tmp_path / "m.jsonl", "", "nemo", None)
    [found] = read_manifest(tmp_path / "m.jsonl")
    assert (found.audio_path, found.text, found.extra) == (path, "one", {"confidence": 0.75})
    assert (count, skipped[0].endswith(": no text"), skipped[1:]) == (1, True, [lines[2]["error"]])
    assert read_other_texts(folder, [digits[0]]) == {digits[0].span: "one"}


def test_each_segment_of_a_transcript_is_an_utterance(tmp_path: Path, digits: list[Utterance]) -> None:
    """With half of the pauses around it, 0.2 s at most; separate channels are no utterances one after the other."""
    segments = [{"text": "one", "start": 0.1, "end": 0.2}, {"text": "two", "start": 0.3, "end": 0.35}]
    words = [{"start": 0.1, "confidence": 0.8}, {"start": 0.15, "confidence": 0.6}, {"start": 0.3, "confidence": 0.5}]
    transcript = {"file": str(digits[0].audio_path), "text": "one two", "words": words}
    transcript["duration"] = digits[0].duration
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({**transcript, "segments": segments}))
    (tmp_path / "in" / "b.json").write_text(json.dumps({**transcript, "segments": [{**segments[0], "channel": 1}]}))
    (tmp_path / "in" / "c.json").write_text(json.dumps({**transcript, "segments": []}))
    count, skipped = convert(tmp_path / "in", tmp_path / "m.jsonl", "", "nemo", None)
    assert (count, len(skipped)) == (2, 2)
    assert "its channels are separate" in skipped[0]
    assert "no text" in skipped[1]
    found = [(u.text, u.offset, u.duration, u.extra) for u in read_manifest(tmp_path / "m.jsonl")]
    rest = pytest.approx(digits[0].duration - 0.25, abs=2e-3)
    assert found == [("one", 0.0, 0.25, {"confidence": 0.7}), ("two", 0.25, rest, {"confidence": 0.5})]


def table_of(path: Path, utterance: Utterance, name: str = "clip.wav") -> Path:
    """A table in parquet of one row; returns its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    audio = {"bytes": utterance.audio_path.read_bytes(), "path": name}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"audio": audio, "text": utterance.text}]), path)
    return path.parent


def test_tables_of_one_name_keep_their_own_audio(tmp_path: Path, digits: list[Utterance]) -> None:
    """train/0000.parquet and test/0000.parquet, each into its own manifest, which may be made again."""
    targets = {"train": tmp_path / "corpus.train.jsonl", "test": tmp_path / "corpus.test.jsonl"}
    for digit, (name, target) in zip(digits, targets.items(), strict=False):
        convert(table_of(tmp_path / name / "0000.parquet", digit), target, "", "nemo", None)
    for digit, target in zip(digits, targets.values(), strict=False):
        [utterance] = read_manifest(target)
        assert utterance.audio_path.parent == target.with_name(f"{target.stem}_audio")
        assert utterance.audio_path.read_bytes() == digit.audio_path.read_bytes()
    [again] = converted(table_of(tmp_path / "train" / "0000.parquet", digits[2]), targets["train"])
    assert again.audio_path.read_bytes() == digits[2].audio_path.read_bytes()


@pytest.mark.parametrize("first", ["corpus", "corpus_audio/0000-000000.wav"])
def test_audio_of_another_target_is_never_overwritten(tmp_path: Path, digits: list[Utterance], first: str) -> None:
    """That of a directory of Kaldi whose name is the manifest's without its suffix, and files of unknown origin."""
    if first == "corpus":
        convert(table_of(tmp_path / "train" / "0000.parquet", digits[0]), tmp_path / first, "", "kaldi", None)
    else:
        (tmp_path / first).parent.mkdir()
        shutil.copy(digits[0].audio_path, tmp_path / first)
    with pytest.raises(InputError, match=r"corpus_audio: holds files that were not made for corpus\.jsonl"):
        convert(table_of(tmp_path / "test" / "0000.parquet", digits[1]), tmp_path / "corpus.jsonl", "", "nemo", None)
    audio = tmp_path / "corpus_audio" / "0000-000000.wav"
    assert audio.read_bytes() == digits[0].audio_path.read_bytes()


def test_the_current_folder_may_be_a_target(
    tmp_path: Path, digits: list[Utterance], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_manifest(tmp_path / "in.jsonl", digits)
    monkeypatch.chdir(tmp_path)
    assert convert(Path("in.jsonl"), Path("."), "", "kaldi", None) == (3, [])


@pytest.mark.parametrize("to", ["nemo", "kaldi", "common_voice", "lhotse", "parquet", "webdataset"])
@pytest.mark.parametrize("key", ["text", "speaker", "lang", "id"])
def test_half_a_character_is_left_out_by_name(tmp_path: Path, digits: list[Utterance], to: str, key: str) -> None:
    """Other keys of our own manifests may hold bytes of odd file names."""
    rows = [{"audio_filepath": str(digit.audio_path), "duration": 1.0, "text": "one"} for digit in digits[:2]]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in (rows[0], {**rows[1], key: "one \ud800"})))
    kept = key == "id" and to in ("nemo", "webdataset")
    line = f"{source}:2: {key} holds half a character, 'one \\ud800'; write the corpus again"
    target = tmp_path / NAMES.get(to, "out.tsv")
    assert convert(source, target, "", to, None) == ((2, []) if kept else (1, [line]))
    assert len(converted(target, tmp_path / "back.jsonl", to)) == 1 + kept
    source.write_text(json.dumps({**rows[1], key: {"\ud800": "one"}} if key == "id" else {**rows[1], key: "\udfff"}))
    if not kept:
        with pytest.raises(InputError, match=rf"in\.jsonl: no utterance can be used .*in\.jsonl:1: {key} holds half a"):
            convert(source, tmp_path / "other" / NAMES.get(to, "out.tsv"), "", to, None)


@pytest.mark.parametrize("layout", ["librispeech", "text_files", "transcripts", "kaldi", "parquet", "ljspeech"])
def test_a_pipe_in_a_folder_is_not_read(tmp_path: Path, digits: list[Utterance], layout: str) -> None:
    """It would be waited for without end; what else is there is read."""
    folder, path = tmp_path / "in", digits[0].audio_path
    copy_audio(digits[0], folder / ("0-0-0000.flac" if layout == "librispeech" else "0.wav"))
    segment = {"text": "one", "start": 0.0, "end": 0.5}
    said = {"file": str(path), "text": "one", "duration": digits[0].duration, "segments": [segment], "words": []}
    files = {
        "librispeech": {"0-0.trans.txt": "0-0-0000 one", "x.trans.txt": ""},
        "text_files": {"0.txt": "one", "x.wav": "", "x.lab": "", "y.txt": ""},
        "transcripts": {"a.json": json.dumps(said), "x.json": "", "part-x.json": ""},
        "kaldi": {"wav.scp": f"u1 {path}", "text": "u1 one", "utt2spk": "", "segments": "", "metadata.csv": ""},
        "ljspeech": {"metadata.csv": f"{path}|one", "wav.scp": ""},
        "parquet": {"x.parquet": "", "x.trans.txt": "", "x.json": ""},
    }
    if layout == "parquet":
        table_of(folder / "0.parquet", digits[0])
    for name, content in files[layout].items():
        if content:
            (folder / name).write_text(content)
        else:
            os.mkfifo(folder / name)
    assert guess_layout(folder) == layout
    assert convert(folder, tmp_path / "m.jsonl", "", "nemo", None) == (1, [])
    assert len(read_manifest(tmp_path / "m.jsonl")) == 1


def test_a_pipe_in_place_of_a_table_of_kaldi_is_named(tmp_path: Path) -> None:
    (tmp_path / "wav.scp").write_text("u1 a.wav\n")
    os.mkfifo(tmp_path / "text")
    with pytest.raises(InputError, match="text: is a pipe, not a file"):
        convert(tmp_path, tmp_path / "m.jsonl", "", "nemo", None)


def test_speakers_with_white_space_add_no_line_to_tables_of_kaldi(tmp_path: Path, digits: list[Utterance]) -> None:
    """It becomes _ as in ids, which begin with the speaker; two speakers never become one."""
    utterances = [replace(digits[0], speaker="A\nutt-9 mallory"), replace(digits[1], speaker="B\u2028 C")]
    write_manifest(tmp_path / "in.jsonl", utterances)
    convert(tmp_path / "in.jsonl", tmp_path / "k", "", "kaldi", None)
    assert (tmp_path / "k" / "utt2spk").read_text().split("\n") == [
        "A_utt-9_mallory-0000000 A_utt-9_mallory",
        "B__C-0000001 B__C",
        "",
    ]
    assert (tmp_path / "k" / "spk2utt").read_text().count("\n") == 2
    write_manifest(tmp_path / "in.jsonl", [*utterances, replace(digits[2], speaker="B__C")])
    with pytest.raises(InputError, match=r"in\.jsonl:2: two speakers are both B__C without white space; rename one"):
        convert(tmp_path / "in.jsonl", tmp_path / "k", "", "kaldi", None)


@pytest.mark.parametrize("name", ["a.wav; touch pwned |", "a.wav\nu9 b.wav", "a\u2028.wav", "a.wav ", "a.wav:12", "a]"])
def test_a_name_that_kaldi_would_read_otherwise_is_left_out(tmp_path: Path, digits: list[Utterance], name: str) -> None:
    """As a command, as two lines, as part of a file."""
    shutil.copy(digits[0].audio_path, tmp_path / name)
    write_manifest(tmp_path / "in.jsonl", [replace(digits[0], audio_path=tmp_path / name), digits[1]])
    count, [line] = convert(tmp_path / "in.jsonl", tmp_path / "k", "", "kaldi", None)
    assert line == f"{tmp_path / 'in.jsonl'}:1: {str(tmp_path / name)!r} is no plain file to Kaldi; rename it"
    assert (count, (tmp_path / "k" / "wav.scp").read_text().count("\n")) == (1, 1)
    assert len(converted(tmp_path / "k", tmp_path / "back.jsonl")) == 1


def test_long_names_have_shorter_links_in_common_voice(tmp_path: Path, digits: list[Utterance]) -> None:
    """A name may have 255 bytes; that of a link has a sum, too."""
    long = tmp_path / f"{'ä' * 125}.wav"
    shutil.copy(digits[0].audio_path, long)
    write_manifest(tmp_path / "in.jsonl", [replace(digits[0], audio_path=long), digits[1]])
    assert convert(tmp_path / "in.jsonl", tmp_path / "cv" / "all.tsv", "", "common_voice", None) == (2, [])
    assert len(converted(tmp_path / "cv" / "all.tsv", tmp_path / "back.jsonl")) == 2


@pytest.mark.parametrize("suffix", [".\n\x1b[31m", f".{'x' * 300}", ".wäv", ".FLAC"])
def test_suffixes_of_audio_in_tables_are_plain(tmp_path: Path, digits: list[Utterance], suffix: str) -> None:
    table_of(tmp_path / "in" / "0.parquet", digits[0], f"x{suffix}")
    [utterance] = converted(tmp_path / "in", tmp_path / "m.jsonl")
    assert utterance.audio_path.name == f"0-000000{'.FLAC' if suffix == '.FLAC' else '.wav'}"
