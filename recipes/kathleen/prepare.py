"""Manifests of Kathleen, US English sentences of one speaker, split by text.

    python recipes/kathleen/prepare.py --source FOLDER --output FOLDER
    python recipes/kathleen/prepare.py --download FOLDER --output FOLDER

FOLDER holds the voice as https://github.com/rhasspy/dataset-voice-kathleen has it (metadata.csv and a folder of audio),
or a copy with a manifest.jsonl of its audio. Prompts occur in up to five recordings: all of them lie on one side.
"""

from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_archives import Archive
from ds2.data.corpus_rows import csv_rows, manifest_rows, measured
from ds2.data.split import split

NAME = "dataset-voice-kathleen-master"
ARCHIVES = {"voice": Archive("https://github.com/rhasspy/dataset-voice-kathleen/archive/refs/heads/master.tar.gz")}
ALPHABET = "abcdefghijklmnopqrstuvwxyz' "
SHARES = {"dev": 0.05, "test": 0.1}


def main() -> None:
    arguments = parse_arguments(__doc__, ARCHIVES)
    folder: Path = arguments.source
    folder = folder / NAME if (folder / NAME).exists() else folder
    rows = manifest_rows(folder) or csv_rows(folder, "kathleen")
    utterances, skipped = measured(rows, "en", ALPHABET)
    write_splits(arguments.output, split(utterances, SHARES, by="text"), skipped)


if __name__ == "__main__":
    run_script(main)
