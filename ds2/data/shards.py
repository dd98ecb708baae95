"""Corpora as a few large tar files (shards) in webdataset's layout: NUMBER.flac beside NUMBER.json.

Millions of small files are slow to list, to copy and to read from a disk across the network; shards are not. The
manifest beside them names each recording by its path inside its shard, so that a sharded corpus is read
like any other, in any order; programs that stream a shard from its beginning find recording and text side by side.
"""

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from ds2.audio.files import SUFFIXES
from ds2.audio.flac import check_sample_rate
from ds2.data.columnar import folders
from ds2.data.corpus_rows import Row
from ds2.data.encode import Coding, encoded
from ds2.data.manifest import write_manifest
from ds2.data.manifest_lines import KINDS
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder, write_text
from ds2.utils.folder_lock import FolderLock
from ds2.utils.tar import archive_of, index_path, members, read_member, readable, scan, write_tar_index

THREADS = 2  # encoding releases Python's lock
MANIFEST = "manifest.jsonl"


@dataclass(frozen=True)
class ShardConfig:
    """How a corpus is cut into shards."""

    hours: float = 1.0  # of audio in a shard: some 60 MB of FLAC at 16 kHz
    coding: Coding = "flac"  # "keep": whole files as they are; "opus": small, at a little loss
    sample_rate: int | None = None  # Hz; None: that of each file
    shuffle: bool = True  # utterances over the shards: a few open shards then look like the whole corpus
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.hours > 0:
            raise InputError(f"hours must be above 0, got {self.hours}")
        if self.sample_rate is not None:
            check_sample_rate(self.sample_rate)


def write_shards(
    utterances: Sequence[Utterance], folder: Path, config: ShardConfig, step: Callable[[int], None] = lambda _: None
) -> tuple[int, list[str]]:
    """Writes shard-NUMBER.tar with indexes, and last of all manifest.jsonl; complete shards of an earlier run are kept.

    A shard that lacks an utterance is made again: its file may have been repaired.

    Args:
        step: called after each shard with its number of utterances.

    Returns:
        the number of shards, and a line for each utterance that could not be read.

    Raises:
        InputError: another process writes into the folder, it holds shards of others, or nothing can be packed.
    """
    make_folder(folder)
    order = list(utterances)
    if config.shuffle:
        random.Random(config.seed).shuffle(order)
    with FolderLock(folder):
        _check_plan(folder / "plan", order, config)
        return _write_groups(order, folder, config, step)


def _write_groups(
    order: Sequence[Utterance], folder: Path, config: ShardConfig, step: Callable[[int], None]
) -> tuple[int, list[str]]:
    written: list[Utterance] = []
    skipped: list[str] = []
    first = 0
    for number, group in enumerate(_groups(order, config.hours * 3600)):
        shard = folder / f"shard-{number:06}.tar"
        names = _recordings(shard)
        if len(names) < len(group):
            skipped += _write_shard(shard, group, first, config)
            names = _recordings(shard)
        for at, utterance in enumerate(group, first):
            if name := names.get(f"{at:09}"):
                written.append(replace(utterance, audio_path=(shard / name).absolute(), offset=None))
        first += len(group)
        step(len(group))
    if not written:
        raise InputError(f"{folder}: no utterance can be packed ({skipped[0] if skipped else 'there is none'})")
    write_manifest(folder / MANIFEST, written)
    return len({utterance.audio_path.parent for utterance in written}), skipped


def stream(file: IO[bytes]) -> Iterator[tuple[dict[str, Any], bytes, str]]:
    """Reads one shard from its beginning to its end, from a file, a pipe or a socket.

    Yields:
        the values of .json (and .txt as "text"), the bytes of the recording, and its name.

    Raises:
        InputError: damaged, or not a tar.
    """
    with readable(getattr(file, "name", "stream")), tarfile.open(fileobj=file, mode="r|*") as tar:
        parts: dict[str, bytes] = {}
        key = ""
        for member in members(tar):
            name, content = member.name, tar.extractfile(member)
            assert content is not None  # as for every file
            if _sample_key(name) != key:
                yield from _audio_sample(key, parts)
                key, parts = _sample_key(name), {}
            parts[name[len(key) :]] = content.read()
        yield from _audio_sample(key, parts)


def read(source: Path, _: Path) -> Iterator[Row]:
    """The rows of a shard, or of all shards in a folder, whichever program wrote them.

    Raises:
        InputError: there is none, or one is damaged or a data set with a manifest of its own.
    """
    shards = sorted(source.glob("*.tar")) if source.is_dir() else [source]
    if not shards:
        raise InputError(f"{source}: holds no .tar")
    for shard in shards:
        places = write_tar_index(shard)
        if manifest := next((name for name in places if name.endswith(".jsonl")), None):
            raise InputError(f"{shard}: no shard of webdataset, it holds {manifest}; unpack it, and name its folder")
        yield from _table_rows(shard, places)


def write(target: Path, utterances: Sequence[Utterance]) -> None:
    """Shards of an hour in the order of the utterances, as they are."""
    write_shards(utterances, target, ShardConfig(coding="keep", shuffle=False))


def shards_of(utterances: Sequence[Utterance]) -> tuple[np.ndarray, list[Path | None]]:
    """(N,) number of the shard of each utterance, and the shards; all plain files count as one more shard, None."""
    numbers: dict[Path | None, int] = {}
    of_utterance, found = folders(utterances)
    of_folder = [numbers.setdefault(archive_of(folder / "x"), len(numbers)) for folder in found]
    return np.array(of_folder, np.int32)[of_utterance], list(numbers)


def _check_plan(path: Path, order: Sequence[Utterance], config: ShardConfig) -> None:
    """Checks that a second run resumes with the same utterances and settings.

    Raises:
        InputError: the folder holds shards of others.
    """
    made_of = [(utterance.audio_path, utterance.offset, utterance.duration, utterance.text) for utterance in order]
    plan = hashlib.sha256((repr(made_of) + repr(config)).encode(errors="surrogateescape")).hexdigest()
    if any(path.parent.glob("shard-*.tar")) and not (path.exists() and path.read_text() == plan):
        raise InputError(f"{path.parent}: holds shards of another manifest or of other settings; choose another folder")
    write_text(path, plan)


def _groups(utterances: Iterable[Utterance], seconds: float) -> Iterator[list[Utterance]]:
    group: list[Utterance] = []
    filled = 0.0
    for utterance in utterances:
        if group and filled + utterance.duration > seconds:
            yield group
            group, filled = [], 0.0
        group.append(utterance)
        filled += utterance.duration
    if group:
        yield group


def _recordings(shard: Path) -> dict[str, str]:
    """Number of an utterance -> its file in a shard; empty until the shard's index has been written, after it.

    By number, not by suffix: files that are kept as they are may have any suffix, .WAV and .sph too.
    """
    if not index_path(shard).exists():
        return {}
    return {_sample_key(name): name for name in scan(shard) if not name.endswith(".json")}


def _write_shard(shard: Path, group: Sequence[Utterance], first: int, config: ShardConfig) -> list[str]:
    """Writes a shard, unless no utterance can be packed; returns a line for each one that cannot."""
    index_path(shard).unlink(missing_ok=True)
    failed = []
    with (
        atomic_write(shard) as partial,
        tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        results = threads.map(lambda utterance: _encoded(utterance, config), group)
        for number, (utterance, result) in enumerate(zip(group, results, strict=True), first):
            if isinstance(result, InputError):
                failed.append(str(result))
                continue
            data, suffix = result
            _add_member(tar, f"{number:09}{suffix}", data)
            values = json.dumps(_utterance_facts(utterance), ensure_ascii=False).encode(errors="backslashreplace")
            _add_member(tar, f"{number:09}.json", values)
    if len(failed) < len(group):
        write_tar_index(shard)
    else:
        shard.unlink()
    return failed


def _encoded(utterance: Utterance, config: ShardConfig) -> tuple[bytes, str] | InputError:
    try:
        return encoded(utterance, config.coding, config.sample_rate)
    except InputError as error:
        return error


def _add_member(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def _utterance_facts(utterance: Utterance) -> dict[str, Any]:
    values: dict[str, Any] = {"text": utterance.text, "duration": utterance.duration}
    values |= {"speaker": utterance.speaker, "lang": utterance.lang}
    values |= {key: value for key, value in utterance.extra.items() if key not in KINDS}
    return {key: value for key, value in values.items() if value is not None}


def _sample_key(name: str) -> str:
    """webdataset's key: the folder, and the name up to its first dot."""
    folder, slash, base = name.rpartition("/")
    return folder + slash + base.partition(".")[0]


def _audio_sample(key: str, parts: dict[str, bytes]) -> Iterator[tuple[dict[str, Any], bytes, str]]:
    audio = next((suffix for suffix in parts if suffix.lower() in SUFFIXES), None)
    if audio is not None:
        yield _facts_of_sample(parts, key), parts[audio], key + audio


def _facts_of_sample(parts: dict[str, bytes], place: str) -> dict[str, Any]:
    """The values of a sample's .json, and its .txt as "text"."""
    try:
        values = json.loads(parts[".json"]) if ".json" in parts else {}
        return values | ({"text": parts[".txt"].decode("utf-8-sig")} if ".txt" in parts else {})
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{place}: .json is not a JSON object, or .txt not valid UTF-8 ({error!s:.60})") from error


def _table_rows(shard: Path, places: dict[str, tuple[int, int]]) -> Iterator[Row]:
    groups: dict[str, list[str]] = {}
    for name in places:
        groups.setdefault(_sample_key(name), []).append(name)
    for key, names in groups.items():
        audio = next((name for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES), None)
        if audio is None:
            continue
        described = [name for name in names if name.endswith((".json", ".txt"))]
        place = f"{shard}: {key}"
        values = _facts_of_sample({name[len(key) :]: read_member(shard / name, shard) for name in described}, place)
        speaker, lang = (None if values.get(name) is None else str(values[name]) for name in ("speaker", "lang"))
        extra = {name: value for name, value in values.items() if name not in KINDS}
        yield Row(shard / audio, str(values.get("text") or ""), speaker, lang, extra=extra, place=place)
