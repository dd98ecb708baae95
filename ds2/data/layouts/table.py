"""Tables of one's own: comma- or tab-separated values with a header, a column of paths and a column of texts."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ds2.audio.files import SUFFIXES
from ds2.data.corpus_rows import Row
from ds2.data.layouts.nemo import NAMES, key_of, make_row, seconds_of
from ds2.utils.errors import InputError
from ds2.utils.files import read_text

TABLE = "metadata.csv"  # of a folder of audio for Hugging Face
DELIMITERS = ",\t;|"
WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")  # of the name of a column: start_ms, startMs
EDGES = {"start", "begin", "end", "stop", "onset", "offset"}  # a name of these words and those of PLACES is of a span
LENGTHS = {"duration", "dur", "length", "len"}
UNITS = {"s", "sec", "secs", "second", "seconds", "ms", "msec", "milliseconds", "frame", "frames", "sample", "samples"}
QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a value in quotes, those within it doubled
PLACES = {"time", "timestamp", "position", "index", "segment", "utterance", "clip", "audio", "speech"} | UNITS


def read(source: Path, _: Path) -> Iterator[Row]:
    """The rows of a table, or of the metadata.csv in a folder; paths are relative to it. Columns beyond NAMES survive.

    A row with an offset is a span of its recording, up to its end, or of its duration, or else to the recording's end.
    A row that does not fit the header, whose span is impossible, or with a quote that is not closed has a problem.

    Raises:
        InputError: a table without a column of paths or of texts, or with spans that are not understood.
    """
    source = source / TABLE if source.is_dir() else source
    lines = io.StringIO(read_text(source).removeprefix("\ufeff"), newline="")
    header = lines.readline()
    lines.seek(0)
    delimiter = _delimiter(header)
    bare = delimiter == "\t" and not header.startswith('"')  # tables with tabs seldom have quotes around values
    table = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL, strict=True)
    keys: list[str] = []
    for place, values in _rows_of(table, source):
        if isinstance(values, csv.Error):
            yield Row(source, "", problem=f"{place}: not a row ({values}); is a quote not closed?")
        elif not keys:
            keys = list(map(key_of, values))
            _check_columns(keys, source)
            _check_spans(keys, source)
        elif any(values):
            yield _table_row(keys, list(map(_unquoted, values)) if bare else values, source, place)
    if not keys:
        _check_columns(keys, source)


def _rows_of(table: Any, source: Path) -> Iterator[tuple[str, list[str] | csv.Error]]:
    """Where each row ends, and its values or why there are none; after one with a wrong quote the next line begins.

    Raises:
        InputError: a value of more than 131,072 characters.
    """
    while True:
        begins = table.line_num + 1
        try:
            values = next(table, None)
        except csv.Error as error:
            if "limit" in str(error):
                raise InputError(f"{source}:{begins}: not a table ({error})") from error
            yield f"{source}:{begins}", error
            continue
        if values is None:
            return
        yield f"{source}:{table.line_num}", values


def is_table(source: Path) -> bool:
    """Whether a file begins with a header that names a column of paths and one of texts."""
    header = read_text(source).removeprefix("\ufeff").partition("\n")[0]
    keys = {key_of(name.strip('"\r')) for name in header.split(_delimiter(header))}
    return keys >= {"audio_filepath", "text"}


def _delimiter(header: str) -> str:
    return max(DELIMITERS, key=header.count)


def _unquoted(value: str) -> str:
    """The value without the quotes that a writer of tables adds to one with quotes; others are the text's own."""
    return value[1:-1].replace('""', '"') if '""' in value[1:-1] and QUOTED.fullmatch(value) else value


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
    if any(map(_holds_a_row, values)):
        problem = f"{place}: a value holds a line with the name of another recording; close its quote"
        return Row(source, "", problem=problem)
    row = {key: value for key, value in zip(keys, values, strict=True) if value}
    row["text"] = " ".join(row.get("text", "").splitlines())
    try:
        length = _seconds_to_end(row, place)
    except InputError as error:
        return Row(source, "", problem=str(error))
    row.pop("end", None)
    return make_row({"audio_filepath": "", **row} | ({"duration": length} if length else {}), source.parent, place)


def _holds_a_row(value: str) -> bool:
    """Whether a quote that was not closed took the next row for a part of this value."""
    return any(suffix in line for line in value.lower().splitlines()[1:] for suffix in SUFFIXES)


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
