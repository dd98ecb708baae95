"""Rows of a published corpus -> utterances of a manifest: what the prepare.py of each recipe needs."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ds2.audio.files import SUFFIXES, probe
from ds2.data.corpus_archives import unpack_once
from ds2.data.manifest import read_manifest
from ds2.data.manifest_lines import MOST_SECONDS
from ds2.data.utterance import Utterance
from ds2.text import normalize
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder, numbered_lines
from ds2.utils.progress import Progress

READERS = 4  # threads: opening a file waits for the disk, not for a core
ROUNDED = 0.1  # seconds by which what is said of a duration may miss the audio


@dataclass(frozen=True)
class Row:
    """An utterance as its corpus describes it; its audio has not been read yet."""

    audio: Path
    text: str
    speaker: str | None = None
    lang: str | None = None
    offset: float | None = None  # seconds; None: the utterance is the whole file
    duration: float | None = None  # seconds; None: to the end of the file
    extra: dict[str, Any] = field(default_factory=dict)
    place: str = ""  # "file:line", for messages
    problem: str = ""  # a line on why the row cannot be used


def corpus_folder(place: Path, folder: Path) -> Path:
    """The folder itself, or the one within `folder` into which a tar is unpacked.

    Raises:
        InputError: there is nothing at the place.
    """
    if place.is_dir():
        return place
    if not place.is_file():
        raise InputError(f"{place}: no such folder or archive; name the one that holds the corpus")
    target = folder / place.name.partition(".")[0]
    make_folder(target)
    unpack_once(place, target)
    return target


def measured(rows: Iterable[Row], language: str | None = "", alphabet: str = "") -> tuple[list[Utterance], list[str]]:
    """Utterances with normalised texts and durations read from the audio, and a line for each row left out.

    A row is left out when it has a problem, its audio cannot be read or ends more than ROUNDED before it does, a row
    before it has the same audio, its text is empty, or, where an alphabet is given, it holds other characters.

    Args:
        language: see `ds2.text.normalize`; None leaves the texts as they are.
        alphabet: the characters allowed; empty: any.
    """
    rows = list(rows)
    with Progress("reading", len(rows), "files") as progress, ThreadPoolExecutor(READERS) as readers:
        results = []
        for result in readers.map(lambda row: _measured(row, language, set(alphabet)), rows):
            results.append(result)
            progress.step()
    first: dict[object, Utterance] = {}
    skipped = []
    for result in results:
        if isinstance(result, str):
            skipped.append(result)
        elif (other := first.setdefault(result.span, result)) is not result:
            skipped.append(f"{result.place}: duplicate of {other.place}, the same audio again")
    return list(first.values()), skipped


def manifest_rows(folder: Path) -> list[Row]:
    """The rows of `folder`/manifest.jsonl, a copy of a corpus in our own form; empty where there is none."""
    path = folder / "manifest.jsonl"
    utterances = read_manifest(path) if path.exists() else []
    return [Row(each.audio_path, each.text, each.speaker, each.lang, place=each.place) for each in utterances]


def csv_rows(folder: Path, speaker: str | None, column: int = 0) -> Iterator[Row]:
    """The rows of metadata.csv, `name|text` lines, the layout that LJ Speech gave to voices.

    `column` picks one of several texts, where a line has that many.
    """
    path = folder / "metadata.csv"
    files = {file.stem: file for file in sorted(folder.glob("*/*")) if file.suffix in SUFFIXES}
    for number, line in numbered_lines(path):
        name, bar, text = line.partition("|")
        if not bar:
            raise InputError(f"{path}:{number}: expected name|text, got {line!r:.60}")
        texts = text.split("|")
        stem = name.rpartition("/")[2].removesuffix(Path(name).suffix if Path(name).suffix in SUFFIXES else "")
        yield Row(files.get(stem, folder / name), texts[min(column, len(texts) - 1)], speaker, place=f"{path}:{number}")


def read_table(path: Path) -> dict[str, str]:
    """Kaldi's tables: a key, white space, and the rest of the line."""
    pairs = (line.split(maxsplit=1) for _, line in numbered_lines(path))
    return {pair[0]: pair[1].strip() if len(pair) > 1 else "" for pair in pairs}


def _measured(row: Row, language: str | None, alphabet: set[str]) -> Utterance | str:
    if row.problem:
        return row.problem
    text = row.text.strip() if language is None else normalize(row.text, language)
    where = row.place or str(row.audio)
    if not text:
        return f"{where}: no text"
    if alphabet and (others := set(text) - alphabet):
        return f"{where}: characters beyond the alphabet: {''.join(sorted(others))!r}"
    offset = row.offset or 0.0
    try:
        rest = round(probe(row.audio).duration - offset, 4)
    except InputError as error:
        return str(error)
    duration = rest if row.duration is None else round(row.duration, 4)
    if not (rest > 0 and 0 < duration <= MOST_SECONDS and offset >= 0):
        return f"{row.audio}: holds no samples from {offset:.2f} s on, for {duration:.2f} s"
    if duration > rest + ROUNDED:
        return f"{where}: ends at {offset + duration:.2f} s, but {row.audio} at {offset + rest:.2f} s"
    held = min(duration, rest)
    return Utterance(row.audio.absolute(), held, text, row.offset, row.speaker, row.lang, dict(row.extra), where)
