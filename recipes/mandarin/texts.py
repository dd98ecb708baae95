"""Text for a language model over Mandarin characters: normalised sentences, without those of the named manifests.

python recipes/mandarin/texts.py TEXT MANIFEST... > SENTENCES
"""

import lzma
import sys
from pathlib import Path

from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest
from ds2.text import normalize


def main() -> None:
    text, *manifests = map(Path, sys.argv[1:])
    held_out = {utterance.text for manifest in manifests for utterance in read_manifest(manifest)}
    with lzma.open(text, "rt", encoding="utf-8") as lines:
        for line in lines:
            sentence = normalize(line, "zh")
            if sentence and sentence not in held_out:
                print(sentence)


if __name__ == "__main__":
    run_script(main)
