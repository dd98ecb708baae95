"""Tables of one's own: comma- or tab-separated values with a header, a column of paths and a column of texts."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from ds2.data.corpus_rows import Row
from ds2.data.layouts.nemo import make_row, seconds_of
from ds2.utils.errors import InputError
from ds2.utils.files import read_text

NAMES = {  # of our manifests, and the end of a span: what such columns are called
    "audio_filepath": ("audio_filepath", "path", "file", "file_name", "filename", "audio", "wav", "wav_filename"),
    "text": ("text", "sentence", "transcript", "transcription"),
    "speaker": ("speaker", "speaker_id", "client_id"),
    "lang": ("lang", "language", "locale"),
    "offset": ("offset", "start", "start_time", "begin", "begin_time"),
    "end": ("end", "end_time"),
    "duration": ("duration",),
}
DELIMITERS = ",\t;|"
WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")  # of the name of a column: start_ms, startMs
EDGES = {"start", "begin", "end", "stop", "onset", "offset"}  # a name of these words and those of PLACES is of a span
LENGTHS = {"duration", "dur", "length", "len"}
UNITS = {"s", "sec", "secs", "second", "seconds", "ms", "msec", "milliseconds", "frame", "frames", "sample", "samples"}
PLACES = {"time", "timestamp", "position", "index", "segment", "utterance", "clip", "audio", "speech"} | UNITS


def read(source: Path, _: Path) -> Iterator[Row]:
    """The rows of a table; paths are relative to it. Columns beyond NAMES survive as they are.

    A row with an offset is a span of its recording, up to its end, or of its duration, or else to the recording's end.
    A row that does not fit the header, or whose span is impossible, has a problem.

    Raises:
        InputError: a folder, a table without a column of paths or of texts, or with spans that are not understood.
    """
    lines = io.StringIO(read_text(source).removeprefix("\ufeff"), newline="")
    header = lines.readline()
    lines.seek(0)
    delimiter = max(DELIMITERS, key=header.count)
    tabs = delimiter == "\t"
    table = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)
    try:
        keys = [_column_meaning(name) for name in next(table, [])]
        _check_columns(keys, source)
        _check_spans(keys, source)
        for values in table:
            if any(values):
                yield _table_row(keys, values, source, f"{source}:{table.line_num}")
    except csv.Error as error:  # a field of more than 131,072 characters
        raise InputError(f"{source}:{table.line_num}: not a table ({error})") from error


def _column_meaning(name: str) -> str:
    """The manifests' name of a column."""
    return next((key for key, names in NAMES.items() if name.strip().lower() in names), name.strip())


def _check_columns(keys: list[str], source: Path) -> None:
    for key in ("audio_filepath", "text"):
        if (count := keys.count(key)) != 1:
            found = "lacks a column" if not count else f"has {count} columns"
            raise InputError(f"{source}:1: {found} of the name {', '.join(NAMES[key])}; the header needs one of them")


def _check_spans(keys: list[str], source: Path) -> None:
    """Refuses what would take a whole recording, or the wrong part of it, for the text of a span."""
    for key in ("offset", "end", "duration"):
        if (count := keys.count(key)) > 1:
            raise InputError(f"{source}:1: has {count} columns of the name {', '.join(NAMES[key])}; rename all but one")
    about = EDGES
    if "offset" in keys and not {"end", "duration"} & {*keys}:  # beside starts a length is that of a span
        about = EDGES | LENGTHS
    unknown = [key for key in keys if key not in NAMES and _is_about(key, about)]
    if unknown:
        names = ", ".join(unknown)
        raise InputError(f"{source}:1: {names}: expected spans as start and end, in seconds; rename or remove")
    if "end" in keys and "offset" not in keys:
        raise InputError(f"{source}:1: has ends, but no starts; name a column start, or rename end")


def _is_about(name: str, things: set[str]) -> bool:
    words = {word.lower() for word in WORD.findall(name)}
    return bool(words & things) and words <= things | PLACES


def _table_row(keys: list[str], values: list[str], source: Path, place: str) -> Row:
    if len(values) != len(keys):
        problem = f"{place}: expected {len(keys)} fields as in the header, got {len(values)}"
        return Row(source, "", problem=problem)
    row = {key: value for key, value in zip(keys, values, strict=True) if value}
    try:
        length = _seconds_to_end(row, place)
    except InputError as error:
        return Row(source, "", problem=str(error))
    row.pop("end", None)
    return make_row({"audio_filepath": "", **row} | ({"duration": length} if length else {}), source.parent, place)


def _seconds_to_end(row: dict[str, str], place: str) -> float | None:
    """From the start of a span to its end; None for a row without an end.

    Raises:
        InputError: no numbers, an end without a start, or one that is not behind it.
    """
    end, start = seconds_of(row, "end", place), seconds_of(row, "offset", place)
    if end is None:
        return None
    if start is None or start >= end:
        why = "has no start" if start is None else f"starts at {start:g} s"
        raise InputError(f"{place}: ends at {end:g} s, but {why}")
    return end - start
