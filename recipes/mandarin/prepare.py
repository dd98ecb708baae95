"""Prepares manifests of Mandarin recordings.

    python recipes/mandarin/prepare.py --output FOLDER --common-voice PLACE [--others PLACE...]

A PLACE is a folder or a tar with its audio and a manifest.jsonl. Common Voice is cut into whole speakers: dev and test
have a tenth of its hours each, train has the rest and all others. Utterances with letters or figures, whose
pronunciation the lexicon lacks, are left out.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ds2.cli.recipe_scripts import run_script, write_splits
from ds2.data.corpus_rows import corpus_folder, manifest_rows, measured
from ds2.data.split import split
from ds2.data.utterance import Utterance
from ds2.text import is_ideograph
from ds2.utils.errors import InputError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--common-voice", type=Path, required=True, metavar="PLACE")
    parser.add_argument("--others", type=Path, nargs="*", default=[], metavar="PLACE")
    arguments = parser.parse_args()
    skipped: list[str] = []
    splits = split(read(arguments.common_voice, arguments.output, skipped), {"dev": 0.1, "test": 0.1})
    others = (each for place in arguments.others for each in read(place, arguments.output, skipped))
    write_splits(arguments.output, {**splits, "train": [*splits["train"], *others]}, skipped)


def read(place: Path, output: Path, skipped: list[str]) -> Sequence[Utterance]:
    """The normalised utterances of a corpus; each one that cannot be used becomes a line of `skipped`."""
    rows = manifest_rows(corpus_folder(place, output / "unpacked"))
    if not rows:
        raise InputError(f"{place}: no manifest.jsonl")
    utterances, left_out = measured(rows, "zh")
    skipped += left_out
    skipped += [f"{each.place}: other than Chinese characters" for each in utterances if not spoken(each)]
    return [each for each in utterances if spoken(each)]


def spoken(utterance: Utterance) -> bool:
    return all(map(is_ideograph, utterance.text))


if __name__ == "__main__":
    run_script(main)
