"""LibriSpeech: SPEAKER/CHAPTER/SPEAKER-CHAPTER.trans.txt beside SPEAKER-CHAPTER-NUMBER.flac."""

from collections.abc import Iterator
from pathlib import Path

from ds2.data.corpus_rows import Row, read_table
from ds2.data.layouts.regular_files import regular_files
from ds2.utils.errors import InputError

MINI_DEV = {"1898", "2136", "6848"}  # readers of train-clean-5, a woman and two men, for recipes that train on the rest


def read(source: Path, _: Path) -> Iterator[Row]:
    """Every chapter below `source`: LibriSpeech/train-clean-100, or all of LibriSpeech.

    Raises:
        InputError: there is none.
    """
    chapters = sorted(regular_files(source, "**/*.trans.txt"))
    if not chapters:
        raise InputError(f"{source}: holds no *.trans.txt; name a folder like LibriSpeech/train-clean-100")
    for chapter in chapters:
        for name, text in read_table(chapter).items():
            extra = {"chapter": name.split("-")[1]} if name.count("-") == 2 else {}
            yield Row(chapter.parent / f"{name}.flac", text, name.split("-")[0], "en", extra=extra, place=str(chapter))
