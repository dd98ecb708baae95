"""Adds a layout of corpora: a folder with index.tab, lines of "recording, speaker, text" with tabs between them.

Within ds2 `read` would be a module of `ds2/data/layouts`, and its row of LAYOUTS in that package's `__init__.py`.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ds2.data.convert import convert
from ds2.data.corpus_rows import Row
from ds2.data.layouts import LAYOUTS, Layout
from ds2.data.manifest import read_manifest
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines

AUDIO = Path(__file__).parents[1] / "recipes" / "english" / "audio"
TEXT = "Applicants must have resided in the country for 5 years."


def read(source: Path, _: Path) -> Iterator[Row]:
    """The rows of the folder; the second argument is a folder for sound that lies inside tables.

    Raises:
        InputError: there is no index.tab, or a line has not three columns.
    """
    table = source / "index.tab"
    for number, line in numbered_lines(table):
        place = f"{table}:{number}"
        columns = line.split("\t")
        if len(columns) != 3:
            raise InputError(f"{place}: expected recording, speaker and text, got {len(columns)} columns")
        name, speaker, text = columns
        yield Row(source / name, text, speaker=speaker, place=place)


LAYOUTS["index"] = Layout(read)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(AUDIO / "cv_00139.opus", folder)
        (folder / "index.tab").write_text(f"cv_00139.opus\tanna\t{TEXT}\nlost.opus\tben\tNobody hears this.\n")
        count, skipped = convert(folder, folder / "all.jsonl", "index", "nemo", "en")
        print(count, "utterance:", read_manifest(folder / "all.jsonl")[0].text)
        print("left out:", *(line.replace(f"{folder}/", "") for line in skipped))
        (folder / "index.tab").write_text("cv_00139.opus anna\n")
        try:
            convert(folder, folder / "all.jsonl", "index", "nemo", "en")
        except InputError as error:
            print("refused:", str(error).replace(f"{folder}/", ""))


if __name__ == "__main__":
    main()
