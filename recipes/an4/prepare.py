"""Manifests of AN4, CMU's census data: names, addresses, numbers and commands, spelt and read by 74 people.

    python recipes/an4/prepare.py --source FOLDER --output FOLDER
    python recipes/an4/prepare.py --download FOLDER --output FOLDER

FOLDER holds an4/ as its archive unpacks it: etc/ and wav/, in NIST's SPHERE format or any other. The test part is the
official one; dev are speakers of the train part, who are then not trained on.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_archives import Archive
from ds2.data.corpus_rows import Row, measured
from ds2.data.split import split
from ds2.utils.errors import InputError
from ds2.utils.files import read_text

# The copy that NVIDIA keeps; CMU's own page is http://www.speech.cs.cmu.edu/databases/an4/
URL = "https://dldata-public.s3.us-east-2.amazonaws.com/an4_sphere.tar.gz"
ARCHIVES = {"an4": Archive(URL, "sha256:a0525579493735d32b60fb6fa5975dd0eaacde087b0a4eeb7f13b7ef33077b12")}
DEV_SHARE = 0.1
LINE = re.compile(r"(?:<s>)?(?P<text>[^<(]*)(?:</s>)?\s*\((?P<name>[^)]+)\)")


def main() -> None:
    arguments = parse_arguments(__doc__, ARCHIVES)
    folder: Path = arguments.source
    folder = folder / "an4" if (folder / "an4").exists() else folder
    train, skipped = measured(rows(folder, "train"), "en")
    test, skipped_test = measured(rows(folder, "test"), "en")
    write_splits(arguments.output, {**split(train, {"dev": DEV_SHARE}), "test": test}, skipped + skipped_test)


def rows(folder: Path, part: str) -> Iterator[Row]:
    """Lines `<s> YES </s> (an1-fash-b)` and, in the same order, `an4_clstk/fash/an1-fash-b`."""
    texts, names = (folder / "etc" / f"an4_{part}.{kind}" for kind in ("transcription", "fileids"))
    lines = zip(read_text(texts).splitlines(), read_text(names).splitlines(), strict=True)
    for number, (line, name) in enumerate(lines, 1):
        match = LINE.fullmatch(line.strip())
        if match is None or not name.endswith(match["name"]):
            raise InputError(f"{texts}:{number}: expected `<s> TEXT </s> ({Path(name).name})`, got {line!r:.60}")
        audio = next((folder / "wav").glob(f"{name}.*"), folder / "wav" / f"{name}.sph")
        yield Row(audio, match["text"].strip(), Path(name).parent.name, place=f"{texts}:{number}")


if __name__ == "__main__":
    run_script(main)
