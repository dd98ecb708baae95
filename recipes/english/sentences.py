"""Prints the normalised texts for a language model, one sentence per line:

    python recipes/english/sentences.py MANIFEST-OR-TEXT... > SENTENCES

Manifests (.jsonl) hold the speech to be recognised and count three times, a text counts once.
"""

import sys
from pathlib import Path

from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest
from ds2.text import normalize
from ds2.utils.files import numbered_lines

MANIFEST_WEIGHT = 3


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        manifest = path.suffix == ".jsonl"
        texts = {each.text for each in read_manifest(path)} if manifest else {line for _, line in numbered_lines(path)}
        sentences = [sentence for sentence in (normalize(text, "en") for text in sorted(texts)) if sentence]
        print("\n".join(sentences * (MANIFEST_WEIGHT if manifest else 1)))


if __name__ == "__main__":
    run_script(main)
