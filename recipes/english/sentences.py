"""What the language model is estimated from, a sentence a line, normalised:

    python recipes/english/sentences.py MANIFEST-OR-TEXT... > SENTENCES

Manifests (.jsonl) are of the speech to be recognised and count three times, a text once.
"""

import json
import sys
from pathlib import Path

from ds2.files import numbered_lines
from ds2.text import normalize

MANIFEST_WEIGHT = 3

for path in map(Path, sys.argv[1:]):
    lines = [line for _, line in numbered_lines(path)]
    manifest = path.suffix == ".jsonl"
    texts = sorted({json.loads(line)["text"] for line in lines} if manifest else set(lines))
    sentences = [sentence for sentence in (normalize(text, "en") for text in texts) if sentence]
    print("\n".join(sentences * (MANIFEST_WEIGHT if manifest else 1)))
