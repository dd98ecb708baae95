"""Manifests of Common Voice, sentences read by volunteers, in any of its languages.

    python recipes/common_voice/prepare.py --source FOLDER --output FOLDER [--language de]

FOLDER is one language of a release, cv-corpus-N/de: train.tsv, dev.tsv, test.tsv and clips/. It cannot be downloaded
without agreeing to its terms: https://commonvoice.mozilla.org/datasets (Mozilla Data Collective). Without --language,
the language is the locale that the tables name.
"""

from itertools import chain
from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_rows import measured
from ds2.data.layouts import common_voice

SPLITS = ("train", "dev", "test")  # the release's own: no speaker is in two of them
MANDARIN = "zh-CN"  # zh-TW and zh-HK write numbers otherwise


def main() -> None:
    arguments = parse_arguments(__doc__, {}, {"language": ""})
    folder: Path = arguments.source
    tables = {split: list(common_voice.read(folder / f"{split}.tsv", folder)) for split in SPLITS}
    locale = arguments.language or next((row.lang for row in chain(*tables.values()) if row.lang), "")
    splits, skipped = {}, []
    for name, part in tables.items():
        splits[name], left_out = measured(part, normalization(locale))
        skipped += left_out
    write_splits(arguments.output, splits, skipped)


def normalization(locale: str) -> str:
    """The language of `ds2.text.normalize`."""
    return "zh" if locale == MANDARIN else locale


if __name__ == "__main__":
    run_script(main)
