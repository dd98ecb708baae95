"""Manifests of AISHELL-1: Mandarin, 178 hours read by 400 people.

    python recipes/aishell/prepare.py --source FOLDER --output FOLDER
    python recipes/aishell/prepare.py --download FOLDER --output FOLDER

FOLDER holds data_aishell/: transcript/ and wav/, with an archive for each speaker (they are unpacked) or unpacked.
"""

from collections.abc import Iterator
from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_archives import Archive, unpack_once
from ds2.data.corpus_rows import Row, measured, read_table
from ds2.utils.progress import Progress

URL = "https://www.openslr.org/resources/33/data_aishell.tgz"
ARCHIVES = {"aishell": Archive(URL, "md5:2f494334227864a8a8fec932999db9d8")}
TRANSCRIPT = "aishell_transcript_v0.8.txt"
SPLITS = ("train", "dev", "test")


def main() -> None:
    arguments = parse_arguments(__doc__, ARCHIVES)
    folder: Path = arguments.source
    folder = folder / "data_aishell" if (folder / "data_aishell").exists() else folder
    speakers = sorted((folder / "wav").glob("*.tar.gz"))
    with Progress("unpacking", len(speakers), "speakers") as progress:
        for speaker in speakers:
            unpack_once(speaker, folder / "wav")
            progress.step()
    texts = read_table(folder / "transcript" / TRANSCRIPT)
    splits, skipped = {}, []
    for split in SPLITS:
        splits[split], left_out = measured(rows(folder / "wav" / split, texts), "zh")
        skipped += left_out
    write_splits(arguments.output, splits, skipped)


def rows(folder: Path, texts: dict[str, str]) -> Iterator[Row]:
    """SPEAKER/UTTERANCE.wav; some hundred recordings have no transcript and are reported."""
    for audio in sorted(folder.glob("*/*.wav")):
        yield Row(audio, texts.get(audio.stem, ""), audio.parent.name, "zh")


if __name__ == "__main__":
    run_script(main)
