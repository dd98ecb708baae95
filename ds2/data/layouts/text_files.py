"""A folder of recordings, each with its text beside it: NAME.wav and NAME.txt or NAME.lab."""

from collections.abc import Iterator
from pathlib import Path

from ds2.audio.files import SUFFIXES
from ds2.data.corpus_rows import Row
from ds2.data.layouts.regular_files import regular_files
from ds2.utils.errors import InputError
from ds2.utils.files import REPORT, read_text

TEXTS = (".txt", ".lab")


def read(source: Path, _: Path) -> Iterator[Row]:
    """Every recording and every text below `source`; one without the other, or a text that cannot be read, is left out
    by name.

    Raises:
        InputError: there is no recording with a text.
    """
    recordings = sorted(path for path in regular_files(source, "**/*") if path.suffix.lower() in SUFFIXES)
    if not any(map(text_of, recordings)):
        raise InputError(f"{source}: holds no recording with its text beside it, NAME.wav and NAME.txt or NAME.lab")
    for audio in recordings:
        text = text_of(audio)
        try:
            yield Row(audio, " ".join(read_text(text).split()) if text else "", place=str(text or audio))
        except InputError as error:
            yield Row(audio, "", problem=str(error))
    heard = {audio.with_suffix("") for audio in recordings}
    texts = sorted(path for path in regular_files(source, "**/*") if path.suffix in TEXTS and path.name != REPORT)
    for text in texts:
        if text.with_suffix("") not in heard:
            yield Row(text, "", problem=f"{text}: no recording beside it")


def text_of(audio: Path) -> Path | None:
    """The file with the text of a recording, if there is one."""
    return next((text for text in map(audio.with_suffix, TEXTS) if text.is_file()), None)
