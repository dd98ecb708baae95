"""Tables of one's own: comma- or tab-separated values with a header, a column of paths and a column of texts."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from ds2.data.corpus_rows import Row
from ds2.data.layouts.nemo import make_row
from ds2.utils.errors import InputError
from ds2.utils.files import read_text

NAMES = {  # of our manifests: what such columns are called
    "audio_filepath": ("audio_filepath", "path", "file", "file_name", "filename", "audio", "wav", "wav_filename"),
    "text": ("text", "sentence", "transcript", "transcription"),
    "speaker": ("speaker", "speaker_id", "client_id"),
    "lang": ("lang", "language", "locale"),
}
DELIMITERS = ",\t;|"


def read(source: Path, _: Path) -> Iterator[Row]:
    """The rows of a table; paths are relative to it. Columns beyond NAMES, offset and duration survive as they are.

    A row that does not fit the header, or whose offset is impossible, has a problem.

    Raises:
        InputError: a folder, or a table without a column of paths or of texts.
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
        for values in table:
            place = f"{source}:{table.line_num}"
            if values and len(values) != len(keys):
                problem = f"{place}: expected {len(keys)} fields as in the header, got {len(values)}"
                yield Row(source, "", problem=problem)
                continue
            row = {key: value for key, value in zip(keys, values, strict=False) if value}
            if row:
                yield make_row({"audio_filepath": "", **row}, source.parent, place)
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
