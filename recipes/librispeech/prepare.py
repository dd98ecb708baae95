"""Manifests of LibriSpeech: English audio books.

    python recipes/librispeech/prepare.py --source FOLDER --output FOLDER
    python recipes/librispeech/prepare.py --download FOLDER --output FOLDER [--parts train-clean-100 dev-clean ...]

FOLDER holds LibriSpeech/ with any of its parts; each becomes a manifest, and all train parts together train.jsonl.
Of train-clean-5 (https://www.openslr.org/31), or a tar with its audio and a manifest.jsonl, three readers are dev.
"""

from pathlib import Path

from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.data.corpus_archives import Archive
from ds2.data.corpus_rows import Row, manifest_rows, measured
from ds2.data.layouts import librispeech
from ds2.data.split import cut_speakers

URL = "https://www.openslr.org/resources/12"
SHA256 = {
    "train-clean-100": "d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2",
    "train-clean-360": "146a56496217e96c14334a160df97fffedd6e0a04e66b9c5af0d40be3c792ecf",
    "train-other-500": "ddb22f27f96ec163645d53215559df6aa36515f26e01dd70798188350adcb6d2",
    "dev-clean": "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
    "dev-other": "12661c48e8c3fe1de2c1caa4c3e135193bfb1811584f11f569dd12645aa84365",
    "test-clean": "39fde525e59672dc6d1551919b1478f724438a95aa55f874b576be21967e6c23",
    "test-other": "d09c181bba5cf717b3dee7d4d592af11a3ee3a09e08ae025c5506f6ebe961c29",
}
ARCHIVES = {part: Archive(f"{URL}/{part}.tar.gz", f"sha256:{checksum}") for part, checksum in SHA256.items()}


def main() -> None:
    arguments = parse_arguments(__doc__, ARCHIVES)
    folder: Path = arguments.source
    folder = folder / "LibriSpeech" if (folder / "LibriSpeech").exists() else folder
    if rows := manifest_rows(folder) or mini_rows(folder):
        utterances, skipped = measured(rows, "en")
        train, dev = cut_speakers(utterances, librispeech.MINI_DEV)
        write_splits(arguments.output, {"dev": dev, "train": train}, skipped)
        return
    splits, skipped = {}, []
    for part in SHA256:
        if (folder / part).exists():
            splits[part], left_out = measured(librispeech.read(folder / part, folder), "en")
            skipped += left_out
    train = [utterance for part, split in splits.items() if part.startswith("train") for utterance in split]
    write_splits(arguments.output, splits | {"train": train}, skipped)


def mini_rows(folder: Path) -> list[Row]:
    mini = folder / "train-clean-5"
    return list(librispeech.read(mini, folder)) if mini.exists() else []


if __name__ == "__main__":
    run_script(main)
