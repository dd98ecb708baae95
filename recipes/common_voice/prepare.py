"""Manifests of Common Voice, sentences read by volunteers, in any of its languages.

    python recipes/common_voice/prepare.py --source FOLDER --output FOLDER [--language de]

FOLDER is one language of a release, cv-corpus-N/de: train.tsv, dev.tsv, test.tsv and clips/. It cannot be downloaded
without agreeing to its terms: https://commonvoice.mozilla.org/datasets (Mozilla Data Collective).
"""

from pathlib import Path

from ds2.data.corpus import measured, parse_arguments, run, write_splits
from ds2.data.layouts import common_voice

SPLITS = ("train", "dev", "test")  # the release's own: no speaker is in two of them


def main() -> None:
    arguments = parse_arguments(__doc__, {}, {"language": "en"})
    folder: Path = arguments.source
    splits, skipped = {}, []
    for split in SPLITS:
        splits[split], left_out = measured(common_voice.read(folder / f"{split}.tsv", folder), arguments.language)
        skipped += left_out
    write_splits(arguments.output, splits, skipped)


if __name__ == "__main__":
    run(main)
