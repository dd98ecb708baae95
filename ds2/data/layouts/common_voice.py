"""Common Voice: a table of tab-separated values for each split, and the recordings in clips/ beside it."""

import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from ds2.data.corpus_rows import Row
from ds2.data.layouts.regular_files import name_by_path
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder, read_text

KEPT = ("age", "gender", "accents", "up_votes", "down_votes")
COLUMNS = ("client_id", "path", "sentence", *KEPT, "locale")


def read(source: Path, _: Path) -> Iterator[Row]:
    """A split of the corpus, cv-corpus-N/LANGUAGE/train.tsv.

    Raises:
        InputError: a folder, a table without the columns path and sentence, or a field of 131,072 characters or more.
    """
    if source.is_dir():
        tables = ", ".join(sorted(path.name for path in source.glob("*.tsv"))) or "none is here"
        raise InputError(f"{source}: name one of its tables ({tables})")
    # Sentences hold quotation marks that close nowhere: the tables are not quoted.
    table = csv.DictReader(io.StringIO(read_text(source)), delimiter="\t", quoting=csv.QUOTE_NONE)
    if missing := {"path", "sentence"} - set(_table_columns(table, source)):
        raise InputError(f"{source}:1: lacks the column {min(missing)}; is it a table of Common Voice?")
    try:
        for number, values in enumerate(table, 2):
            yield Row(
                source.parent / "clips" / (values["path"] or ""),
                values["sentence"] or "",
                values.get("client_id") or None,
                values.get("locale") or None,
                extra={key: values[key] for key in KEPT if values.get(key)},
                place=f"{source}:{number}",
            )
    except csv.Error as error:  # a field of more than 131,072 characters
        raise InputError(f"{source}:{table.line_num + 1}: not a table of Common Voice ({error})") from error


def write(target: Path, utterances: Sequence[Utterance]) -> None:
    """The table `target`, and links to the recordings in clips/ beside it, for all tables of the folder.

    The name of a link holds a sum of the recording's path, so that no table changes what another one names.

    Raises:
        InputError: an utterance that is a span of a recording: there is no column for that.
    """
    clips = target.parent / "clips"
    make_folder(clips)
    with atomic_write(target) as partial, partial.open("w", encoding="utf-8") as file:
        file.write("\t".join(COLUMNS) + "\n")
        for utterance in utterances:
            if utterance.offset is not None:
                only = "a span of a recording, and Common Voice knows whole files only"
                raise InputError(f"{utterance.place}: {only}; cut them out by ds2 data shard, and convert its folder")
            name = name_by_path(utterance.audio_path)
            with contextlib.suppress(FileExistsError):
                (clips / name).symlink_to(utterance.audio_path)
            values = {
                "client_id": utterance.speaker,
                "path": name,
                "sentence": utterance.text,
                "locale": utterance.lang,
            }
            values |= {key: utterance.extra.get(key) for key in KEPT}
            file.write("\t".join(" ".join(str(values[key] or "").split()) for key in COLUMNS) + "\n")


def lost_in_common_voice(utterances: Sequence[Utterance]) -> set[str]:
    """The other keys for which the table has no column."""
    return {key for each in utterances for key in each.extra if key not in KEPT}


def _table_columns(table: "csv.DictReader[str]", source: Path) -> Sequence[str]:
    try:
        return table.fieldnames or ()
    except csv.Error as error:
        raise InputError(f"{source}:1: not a table of Common Voice ({error})") from error
