"""Shards: read in any order and from beginning to end, by us and by webdataset, and made in several goes."""

import gzip
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from helpers.locks import hold_lock

from ds2.audio.files import probe
from ds2.audio.tensors import read_audio
from ds2.data.convert import convert
from ds2.data.encode import encoded
from ds2.data.manifest import read_manifest
from ds2.data.shards import ShardConfig, shards_of, stream, write_shards
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.tar import index_path, read_member, scan

SMALL = ShardConfig(hours=1 / 3600)  # a second


@pytest.fixture
def digits(spoken_digits: Callable[[int], Path]) -> list[Utterance]:
    return read_manifest(spoken_digits(12))


def by_text_and_length(utterances: list[Utterance]) -> list[tuple[str, float]]:
    return sorted((utterance.text, utterance.duration) for utterance in utterances)


def test_a_sharded_corpus_is_a_corpus_like_any_other(tmp_path: Path, digits: list[Utterance]) -> None:
    count, skipped = write_shards(digits, tmp_path / "s", SMALL)
    assert count > 2
    assert skipped == []
    sharded = read_manifest(tmp_path / "s" / "manifest.jsonl")
    assert by_text_and_length(sharded) == by_text_and_length(digits)
    originals = {read_audio(utterance.audio_path)[0].numpy().tobytes() for utterance in digits}
    assert {read_audio(utterance.audio_path)[0].numpy().tobytes() for utterance in sharded} == originals
    path, part = sharded[3].audio_path, read_audio(sharded[3].audio_path, None, 0.1, 0.05)[0]
    assert torch.equal(part, read_audio(path)[0][800:1200])
    assert probe(path).duration == pytest.approx(sharded[3].duration, abs=1e-3)
    assert set(shards_of(sharded)[0]) == set(range(count))


def test_index_says_where_the_members_lie_and_is_not_needed(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards(digits, tmp_path, SMALL)
    [utterance, *_] = read_manifest(tmp_path / "manifest.jsonl")
    shard = utterance.audio_path.parent
    start, size = scan(shard)[utterance.audio_path.name]
    data = shard.read_bytes()[start : start + size]
    samples = read_audio(utterance.audio_path)[0]
    assert (soundfile.read(io.BytesIO(data), dtype="float32")[0] == samples.numpy()).all()
    index_path(shard).write_text('{"bytes": 7, "members": {}}')  # of another archive: not believed
    assert torch.equal(read_audio(utterance.audio_path)[0], samples)


def test_webdataset_itself_reads_our_shards(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards(digits, tmp_path, SMALL)
    # In a separate process: webdataset leaves files to the garbage collector, and warnings are errors here.
    read = (
        "import sys, json, webdataset as wds\nfor sample in wds.WebDataset(sys.argv[1:], shardshuffle=False).decode():"
    )
    read += "\n    print(json.dumps([sample['json']['text'], len(sample['flac'])]))"
    urls = [str(path) for path in sorted(tmp_path.glob("*.tar"))]
    result = subprocess.run([sys.executable, "-c", read, *urls], capture_output=True, text=True, check=True)
    samples = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(text for text, _ in samples) == sorted(utterance.text for utterance in digits)
    sizes = {size for shard in tmp_path.glob("*.tar") for name, (_, size) in scan(shard).items() if "flac" in name}
    assert {size for _, size in samples} == sizes


def test_we_read_shards_that_webdataset_wrote(tmp_path: Path, digits: list[Utterance]) -> None:
    (tmp_path / "theirs").mkdir()
    write = "import sys, webdataset as wds\nwith wds.TarWriter(sys.argv[1]) as writer:\n  for number in range(3):"
    write += "\n    path, text = sys.argv[2 + 2 * number:][:2]"
    write += "\n    writer.write({'__key__': f'x/{number}', 'wav': open(path, 'rb').read(), 'txt': text})"
    facts = [fact for utterance in digits[:3] for fact in (str(utterance.audio_path), utterance.text.upper())]
    subprocess.run([sys.executable, "-c", write, tmp_path / "theirs" / "a.tar", *facts], check=True)
    convert(tmp_path / "theirs", tmp_path / "m.jsonl", "", "nemo", "en")
    assert by_text_and_length(read_manifest(tmp_path / "m.jsonl")) == [
        (text, pytest.approx(duration, abs=1e-3)) for text, duration in by_text_and_length(digits[:3])
    ]


def test_shards_stream_from_a_pipe(tmp_path: Path, digits: list[Utterance]) -> None:
    class Pipe(io.RawIOBase):
        """Bytes that can be read once and not sought in."""

        def __init__(self, data: bytes):
            self.file = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return self.file.read(size)

    write_shards(digits, tmp_path, ShardConfig(shuffle=False))
    streamed = list(stream(Pipe((tmp_path / "shard-000000.tar").read_bytes())))
    assert [values["text"] for values, _, _ in streamed] == [utterance.text for utterance in digits]
    assert [name for _, _, name in streamed][:2] == ["000000000.flac", "000000001.flac"]
    first = soundfile.read(io.BytesIO(streamed[0][1]), dtype="float32")[0]
    assert (first == read_audio(digits[0].audio_path)[0].numpy()).all()


def test_second_run_goes_on_and_one_of_another_manifest_is_refused(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards(digits, tmp_path, SMALL)
    shards = sorted(tmp_path.glob("*.tar"))
    whole, times = [path.read_bytes() for path in shards], [path.stat().st_mtime_ns for path in shards]
    shards[1].write_bytes(b"half of it")
    index_path(shards[1]).unlink()  # as after a kill: the index comes last
    write_shards(digits, tmp_path, SMALL)
    assert [path.read_bytes() for path in shards] == whole
    assert shards[0].stat().st_mtime_ns == times[0]
    with pytest.raises(InputError, match="another manifest or of other settings"):
        write_shards(digits[:5], tmp_path, SMALL)


def test_a_folder_takes_the_shards_of_one_process_at_a_time(tmp_path: Path, digits: list[Utterance]) -> None:
    """Two at once wrote recordings of the one with texts of the other."""
    with hold_lock(tmp_path), pytest.raises(InputError, match="writes into this folder"):
        write_shards(digits, tmp_path, SMALL)
    assert not list(tmp_path.glob("*.tar"))
    write_shards(digits, tmp_path, SMALL)


def test_a_device_or_pipe_is_no_recording_to_keep(tmp_path: Path, digits: list[Utterance]) -> None:
    """The one has no end, and the other would be waited for."""
    os.mkfifo(tmp_path / "pipe.wav")
    odd = [Utterance(path, 1.0, "x") for path in (Path("/dev/zero"), tmp_path / "pipe.wav", Path(__file__))]
    _, lines = write_shards([*odd, *digits[:2]], tmp_path / "s", ShardConfig(coding="keep", shuffle=False))
    assert [line.partition(": ")[0] for line in lines] == [str(utterance.audio_path) for utterance in odd]


def test_unreadable_utterances_are_told_and_left_out(tmp_path: Path, digits: list[Utterance]) -> None:
    gone = Utterance(tmp_path / "gone.wav", 1.0, "x", place="m:9")
    for _ in range(2):  # the second run tells it again
        _, [line] = write_shards([gone, *digits[:2]], tmp_path / "s", SMALL)
        assert line == f"{tmp_path / 'gone.wav'}: cannot be read (No such file or directory)"
        assert len(read_manifest(tmp_path / "s" / "manifest.jsonl")) == 2
    shutil.copy(digits[3].audio_path, gone.audio_path)
    assert write_shards([gone, *digits[:2]], tmp_path / "s", SMALL)[1] == []
    assert len(read_manifest(tmp_path / "s" / "manifest.jsonl")) == 3


def test_a_run_that_packed_nothing_is_not_in_the_way_of_the_next(tmp_path: Path, digits: list[Utterance]) -> None:
    with pytest.raises(InputError, match=r"no utterance can be packed \(.*gone\.wav: cannot be read"):
        write_shards([Utterance(tmp_path / "gone.wav", 1.0, "x")], tmp_path / "s", SMALL)
    assert write_shards(digits, tmp_path / "s", SMALL)[1] == []


@pytest.mark.parametrize(
    ("rate", "packed"), [(8000, 8000), (11025, 12000), (22050, 24000), (44100, 48000), (96000, 48000)]
)
def test_opus_takes_the_next_rate_that_it_knows(tmp_path: Path, rate: int, packed: int) -> None:
    soundfile.write(tmp_path / "a.flac", 0.1 * np.sin(np.arange(rate // 2) * 2000 / rate), rate)
    write_shards([Utterance(tmp_path / "a.flac", 0.5, "x")], tmp_path / "s", ShardConfig(coding="opus"))
    [sharded] = read_manifest(tmp_path / "s" / "manifest.jsonl")
    assert probe(sharded.audio_path).sample_rate == packed
    assert probe(sharded.audio_path).duration == pytest.approx(sharded.duration, abs=1e-3)


def test_a_rate_beyond_the_coding_s_is_told(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(1000), 768_000)
    with pytest.raises(InputError, match=r"a\.wav: flac cannot hold 768000 Hz"):
        write_shards([Utterance(tmp_path / "a.wav", 0.001, "x")], tmp_path / "s", ShardConfig())


@pytest.mark.parametrize("values", [{"hours": 0.0}, {"hours": math.nan}, {"sample_rate": 0}, {"sample_rate": -8000}])
def test_impossible_settings_are_refused(values: dict) -> None:
    with pytest.raises(InputError, match=r"must be above 0|must be from 1,000 to 655,350 Hz"):
        ShardConfig(**values)


@pytest.mark.parametrize(("name", "form"), [("A.WAV", "WAV"), ("b.sph", "NIST")])
def test_files_kept_as_they_are_may_have_any_suffix(
    tmp_path: Path, digits: list[Utterance], name: str, form: str
) -> None:
    samples, rate = soundfile.read(digits[0].audio_path)
    soundfile.write(tmp_path / name, samples, rate, format=form)
    row = Utterance(tmp_path / name, digits[0].duration, "zero")
    assert write_shards([row], tmp_path / "s", ShardConfig(coding="keep")) == (1, [])
    [sharded] = read_manifest(tmp_path / "s" / "manifest.jsonl")
    assert (soundfile.read(io.BytesIO(encoded(sharded)[0]))[0] == samples).all()


def test_shards_can_be_made_of_shards(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards(digits, tmp_path / "once", SMALL)
    sharded = read_manifest(tmp_path / "once" / "manifest.jsonl")
    assert write_shards(sharded, tmp_path / "twice", ShardConfig(coding="keep")) == (1, [])
    assert by_text_and_length(read_manifest(tmp_path / "twice" / "manifest.jsonl")) == by_text_and_length(digits)


def test_other_keys_never_stand_in_for_the_utterance_s_own(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards([replace(digits[0], extra={"text": "old", "offset": 5.0, "take": 3})], tmp_path, SMALL)
    [(values, _, _)] = stream(io.BytesIO((tmp_path / "shard-000000.tar").read_bytes()))
    assert (values["text"], values["take"], "offset" in values) == ("zero", 3, False)


@pytest.mark.parametrize(
    "place", [[-5, 10], [0, -1], [0, 10**30], ["a", 5], [0], None, 7, {"start": 0}, [math.inf, 1], [10**15, 5]]
)
def test_an_index_with_impossible_places_is_not_believed(
    tmp_path: Path, digits: list[Utterance], place: object
) -> None:
    write_shards(digits[:2], tmp_path, SMALL)
    [utterance, *_] = read_manifest(tmp_path / "manifest.jsonl")
    shard = utterance.audio_path.parent
    index = json.loads(index_path(shard).read_text())
    index["members"][utterance.audio_path.name] = place
    for damaged in (index, {**index, "members": place}, place, {"members": {}}):
        index_path(shard).write_text(json.dumps(damaged))
        assert len(read_audio(utterance.audio_path)[0]) > 0
        shard.touch()  # another time of change: the index is read again


def test_keys_that_are_no_utf8_travel_too(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards([replace(digits[0], extra={"id": "\udcff.wav"})], tmp_path, SMALL)
    [(values, _, _)] = stream(io.BytesIO((tmp_path / "shard-000000.tar").read_bytes()))
    assert values["id"] == "\udcff.wav"


def test_segments_of_another_length_are_another_plan(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards([replace(digits[0], offset=0.0, duration=0.2)], tmp_path, SMALL)
    with pytest.raises(InputError, match="another manifest"):
        write_shards([replace(digits[0], offset=0.0, duration=0.1)], tmp_path, SMALL)


def test_damaged_archives_and_missing_members_are_named(tmp_path: Path, digits: list[Utterance]) -> None:
    (tmp_path / "bad.tar").write_text("no tar")
    with pytest.raises(InputError, match=r"bad\.tar: not a readable tar"):
        read_audio(tmp_path / "bad.tar" / "a.wav")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(digits[0].audio_path, "a.wav")
    with pytest.raises(InputError, match=r"a\.tar has no such file"):
        read_audio(tmp_path / "a.tar" / "b.wav")
    cut = (tmp_path / "a.tar").read_bytes()[:1500]
    (tmp_path / "a.tar").write_bytes(cut)
    with pytest.raises(InputError):
        read_audio(tmp_path / "a.tar" / "a.wav")


def test_a_member_of_negative_size_is_refused(tmp_path: Path) -> None:
    """tarfile would go back to an earlier header and never end."""
    member = tarfile.TarInfo("a.wav")
    for size in (-1, -512, -1024):
        member.size = size
        header = member.tobuf(tarfile.GNU_FORMAT)
        (tmp_path / "a.tar").write_bytes(header * 2 + bytes(1024))
        with pytest.raises(InputError, match="negative size"):
            scan(tmp_path / "a.tar")
        with pytest.raises(InputError, match="not a readable tar"):
            list(stream(io.BytesIO(header * 2 + bytes(1024))))


def test_a_damaged_stream_is_refused(tmp_path: Path, digits: list[Utterance]) -> None:
    write_shards(digits[:2], tmp_path, SMALL)
    data = (tmp_path / "shard-000000.tar").read_bytes()
    for damaged in (b"", b"no tar", data[:700], data[:100] + b"x" + data[101:], gzip.compress(data)[:1000]):
        with pytest.raises(InputError, match="not a readable tar"):
            list(stream(io.BytesIO(damaged)))


def test_a_name_of_a_member_that_leads_out_of_the_archive_is_refused(tmp_path: Path) -> None:
    """A path below an archive and one from the root are the latter."""
    archive = tmp_path / "shard.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("/a.wav", "/a.json"):
            tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(InputError, match="begins with /"):
        convert(archive, tmp_path / "m.jsonl", "", "nemo", None)


def test_a_control_character_in_the_name_of_a_member_is_refused_in_one_line(tmp_path: Path) -> None:
    archive = tmp_path / "shard.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(tarfile.TarInfo("a\nb.wav"))
    index_path(archive).write_text(json.dumps({"bytes": archive.stat().st_size, "members": {"a\nb.wav": [512, 0]}}))
    with pytest.raises(InputError, match="control character") as refused:
        read_member(archive / "a.wav", archive)
    assert "\n" not in str(refused.value)
