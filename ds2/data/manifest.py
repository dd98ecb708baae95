"""Manifests: JSON Lines, one utterance a line, `{"audio_filepath": ..., "duration": ..., "text": ...}`."""

import contextlib
import gc
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ds2.audio.files import SUFFIXES
from ds2.data.columnar import durations, values
from ds2.data.compiled import SUFFIX as COMPILED
from ds2.data.compiled import CompiledManifest, write_compiled
from ds2.data.manifest_lines import (
    KINDS,
    Refuse,
    absolute_audio,
    duplicate,
    raise_refusal,
    read_blocks,
    relative_audio,
)
from ds2.data.utterance import Utterance
from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write
from ds2.utils.object_storage import fetched

ENCODER = json.JSONEncoder(ensure_ascii=False)
TABLES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class ManifestSummary:
    """Figures that describe a corpus."""

    utterances: int
    hours: float
    speakers: int
    shortest: float  # seconds
    median: float
    longest: float
    words: int
    characters: dict[str, int]  # how often each occurs, most frequent first


def read_manifest(path: str | Path, repeated: bool = False, refuse: Refuse = raise_refusal) -> Sequence[Utterance]:
    """Reads and checks a manifest; relative audio paths are relative to it. The audio itself is not touched.

    The path may be a URL, see `ds2.utils.object_storage`. A compiled manifest (.arrow) was checked when compiled:
    it is mapped into memory, whatever its size.

    Args:
        repeated: whether the audio of a line may be that of another one.
        refuse: called for a wrong line, which is left out where it returns; by default it raises the error.

    Raises:
        InputError: naming the line: not JSON, a key missing or of the wrong type, an impossible duration or offset,
            a duplicate unless `repeated`; or the file is missing, not UTF-8, or has no utterance.
    """
    here = fetched(path)
    _check_manifest(here)
    if here.suffix == COMPILED:
        return CompiledManifest(here)
    with _collector_paused():
        utterances = _read_rows(here, repeated, refuse)
    if not utterances:
        raise InputError(f"{path}: the manifest holds no utterance")
    return utterances


def write_manifest(path: str | Path, utterances: Iterable[Utterance]) -> None:
    """Writes a manifest, whole or not at all; audio below its folder is named relative to it.

    A path that ends in .arrow gets a compiled manifest.
    """
    path = Path(path)
    if path.suffix == COMPILED:
        write_compiled(path, utterances)
        return
    relative = relative_audio(path.parent)
    # backslashreplace writes what UTF-8 cannot hold (bytes of odd file names) as \udcff, which JSON reads back
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for utterance in utterances:
            file.write(ENCODER.encode(_json_line(utterance, relative)) + "\n")


def check_characters(utterances: Sequence[Utterance], tokenizer: Tokenizer) -> None:
    """Refuses utterances with characters that the alphabet lacks.

    Raises:
        InputError: naming the first such line, all such characters, and how many utterances hold them.
    """
    known = set(tokenizer.index)
    texts = enumerate(values(utterances, "text"))
    bad = [(number, text) for number, text in texts if not known.issuperset(text)]
    if bad:
        characters = "".join(sorted(set().union(*(tokenizer.unknown(text) for _, text in bad))))
        raise InputError(
            f"{utterances[bad[0][0]].place}: characters that the model's alphabet lacks: {characters!r} "
            f"({len(bad)} of {len(utterances)} utterances); normalise the texts"
        )


def summary(utterances: Sequence[Utterance]) -> ManifestSummary:
    """Figures that describe the corpus; at least one utterance."""
    seconds, characters, words = durations(utterances), Counter[str](), 0
    for text in values(utterances, "text"):
        characters.update(text)
        words += len(text.split())
    return ManifestSummary(
        utterances=len(utterances),
        hours=float(seconds.sum()) / 3600,
        speakers=len(set(values(utterances, "speaker")) - {None}),
        shortest=float(seconds.min()),
        median=float(np.median(seconds)),
        longest=float(seconds.max()),
        words=words,
        characters=dict(characters.most_common()),
    )


def _read_rows(path: Path, repeated: bool, refuse: Refuse) -> list[Utterance]:
    name = str(path)
    absolute = absolute_audio(path.parent)
    utterances: list[Utterance] = []
    first: dict[object, int] = {}  # a segment's first line
    folder, known = Path(), ""  # of the line before: a Path is made in half the time from that of its folder
    for block in read_blocks(path, refuse):
        for number, line, extra in zip(*block, strict=True):
            audio, offset, seconds = absolute(line.audio_filepath), line.offset, line.duration
            other = first.setdefault(audio if offset is None else (audio, offset, seconds), number)
            if other != number and not repeated:
                raise duplicate(name, number, other)
            above, _, below = audio.rpartition("/")
            if above != known or not known:
                folder, known = Path(above or "/"), above
            place, own = f"{name}:{number}", dict(extra) if extra else {}
            utterances.append(
                Utterance(folder / below, seconds, line.text, offset, line.speaker, line.lang, own, place)
            )
    return utterances


def _check_manifest(path: Path) -> None:
    """Refuses a recording and a table, and says what makes the manifests of a recipe."""
    if path.suffix.lower() in SUFFIXES:
        raise InputError(f"{path}: is a recording; name a manifest: JSON Lines with audio_filepath, duration, text")
    if path.suffix.lower() in TABLES:
        raise InputError(f"{path}: is no manifest; ds2 data convert makes one of a table")
    script = path.parent.parent / "prepare.py"
    if not path.exists() and script.is_file():
        raise InputError(f"{path}: is not there; {script} makes it, with {path.parent} as its output")


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Millions of new objects would make Python's garbage collector go through all of them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _json_line(utterance: Utterance, relative: Callable[[str], str]) -> dict[str, Any]:
    """The JSON object of an utterance; keys without a value are left out."""
    values = {
        "audio_filepath": relative(str(utterance.audio_path)),
        "duration": utterance.duration,
        "text": utterance.text,
        "offset": utterance.offset,
        "speaker": utterance.speaker,
        "lang": utterance.lang,
    }
    others = {key: value for key, value in utterance.extra.items() if key not in KINDS}
    return {key: value for key, value in values.items() if value is not None} | others
