"""Manifests of Kerstin, German sentences of one speaker, split by text.

    python recipes/kerstin/prepare.py --source FOLDER --output FOLDER
    python recipes/kerstin/prepare.py --download FOLDER --output FOLDER

FOLDER holds the voice as https://github.com/rhasspy/dataset-voice-kerstin has it (metadata.csv and a folder of audio),
or a copy with a manifest.jsonl of its audio. Sentences with digits are skipped: how they are read is unknown.
"""

from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_archives import Archive
from ds2.data.corpus_rows import csv_rows, manifest_rows, measured
from ds2.data.split import split

COMMIT = "70c789620af10e9bad79b5035ecc606096e96847"
NAME = f"dataset-voice-kerstin-{COMMIT}"
ARCHIVES = {"voice": Archive(f"https://github.com/rhasspy/dataset-voice-kerstin/archive/{COMMIT}.tar.gz")}
ALPHABET = "abcdefghijklmnopqrstuvwxyzäöüß' "
SHARES = {"dev": 0.05, "test": 0.1}


def main() -> None:
    arguments = parse_arguments(__doc__, ARCHIVES)
    folder: Path = arguments.source
    folder = folder / NAME if (folder / NAME).exists() else folder
    rows = manifest_rows(folder) or csv_rows(folder, "kerstin")
    utterances, skipped = measured(rows, "de", ALPHABET)
    write_splits(arguments.output, split(utterances, SHARES, by="text"), skipped)


if __name__ == "__main__":
    run_script(main)
