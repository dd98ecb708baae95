"""LJ Speech and voices in its layout: metadata.csv, `name|text|text with numbers as words`, and the files in wavs/."""

from collections.abc import Iterator
from pathlib import Path

from ds2.data.corpus_rows import Row, csv_rows

TABLE = "metadata.csv"


def read(source: Path, _: Path) -> Iterator[Row]:
    """The rows of the folder, or of the metadata.csv in it; with numbers as words where the table has them.

    Raises:
        InputError: the table is missing, or a line is not `name|text`.
    """
    return csv_rows(source if source.is_dir() else source.parent, None, column=1)
