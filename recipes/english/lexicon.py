"""A pronouncing lexicon in the format of CMUdict; letter-to-sound rules give the pronunciations of unknown words.

    python recipes/english/lexicon.py CMUDICT MANIFEST-OR-ARPA... > LEXICON

It holds the words of manifests (.jsonl), and those of a language model (.arpa, .arpa.gz, or the compiled form).
"""

import sys
from pathlib import Path

from ds2.cli.recipe_scripts import run_script
from ds2.data.cmudict import read_pronunciations
from ds2.data.manifest import read_manifest
from ds2.data.phone_sets import CMUDICT
from ds2.decoder.letter_to_sound import guess_pronunciations
from ds2.lm.ngram import NGram

LETTERS = set("abcdefghijklmnopqrstuvwxyz'")


def words_of(path: Path) -> set[str]:
    if path.suffix == ".jsonl":
        return {word for utterance in read_manifest(path) for word in utterance.text.split()}
    return {word for word in NGram.load(path).words if not word.startswith("<")}


def main() -> None:
    dictionary, *sources = map(Path, sys.argv[1:])
    known = read_pronunciations(dictionary, CMUDICT)
    words = set.union(*map(words_of, sources))
    spelt = {word: spoken for word, spoken in known.items() if set(word) <= LETTERS}
    guessed = guess_pronunciations(words - known.keys(), spelt)
    for word in sorted(words):
        spoken = known.get(word) or [guessed[word]]
        for number, phones in enumerate(filter(None, spoken), 1):
            print(word if number == 1 else f"{word}({number})", CMUDICT.text(phones))


if __name__ == "__main__":
    run_script(main)
