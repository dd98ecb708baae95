"""Strings of Mandarin words, composed of the recordings of the HSK word lists by one speaker.

    python recipes/hsk/prepare.py --source FOLDER --output FOLDER
    python recipes/hsk/prepare.py --download FOLDER --output FOLDER

FOLDER holds https://github.com/hugolpz/audio-cmn (64k/hsk/cmn-WORD.mp3), or a copy with a manifest.jsonl of its audio.

    train        strings of 1 to 4 words, each word in two of them
    dev, test    strings of other words: none is in the training set, but all their characters are

The words are those whose characters occur in at least --common words of the lists each: a character that occurs once
cannot be known. 4 leaves 5,700 of 8,600 words and 1,000 of 2,900 characters; 1 leaves all.
"""

import random
from collections import Counter
from pathlib import Path

from ds2.audio.tensors import read_audio
from ds2.cli.recipe_scripts import parse_arguments, run_script, write_splits
from ds2.curation.connected_words import WordString, WordStringConfig, make_strings, write_strings
from ds2.data.corpus_archives import Archive
from ds2.data.corpus_rows import Row, manifest_rows, measured
from ds2.data.utterance import Utterance
from ds2.utils.progress import Progress

COMMIT = "c3e2a76daa91234e1c6980c00c97453d4f3a1d3e"
ARCHIVES = {"words": Archive(f"https://github.com/hugolpz/audio-cmn/archive/{COMMIT}.zip")}
SPEAKER = "cmn-caen-tan"
RATE = 16000  # Hz
HELD_OUT = {"test": 500, "dev": 200}  # words
KNOWN = 3  # training words, at least, hold each character of a word held out
USES = 2  # of each word in the training set
STRINGS = {"dev": 100, "test": 250}
MEAN_WORDS = 2.5  # of a string
STYLE = {
    "train": WordStringConfig((1, 4), pause=(-0.05, 0.2), separator=""),
    "dev": WordStringConfig((1, 4), separator=""),
    "test": WordStringConfig((1, 4), separator=""),
}


def main() -> None:
    arguments = parse_arguments(__doc__, ARCHIVES, {"common": 4})
    rows = [row for row in manifest_rows(arguments.source) or word_rows(arguments.source) if "_" not in row.text]
    words, skipped = measured(rows, "zh")
    words = of_common_characters(words, arguments.common)
    rng = random.Random(1)
    strings = {}
    for split, own in hold_out(words, rng).items():
        count = STRINGS.get(split) or round(USES * len(own) / MEAN_WORDS)
        strings[split] = make_strings(read(own), count, STYLE[split], RATE, rng)
    splits = {}
    for split in ("dev", "test", "train"):  # where train.jsonl is, the corpus counts as prepared
        splits[split] = write_strings(arguments.output, split, strings[split], RATE)
    write_splits(arguments.output, splits, skipped)


def word_rows(folder: Path) -> list[Row]:
    """The files as they are published; pauses of patterns, as in 一_就_, are underscores."""
    return [Row(path, path.stem.removeprefix("cmn-"), SPEAKER) for path in sorted(folder.glob("**/64k/hsk/cmn-*.mp3"))]


def of_common_characters(words: list[Utterance], least: int) -> list[Utterance]:
    """Without the words that hold a character of fewer than `least` of the words that stay."""
    while True:
        counts = Counter(character for word in words for character in set(word.text))
        kept = [word for word in words if all(counts[character] >= least for character in word.text)]
        if len(kept) == len(words):
            return kept
        words = kept


def hold_out(words: list[Utterance], rng: random.Random) -> dict[str, list[Utterance]]:
    """Random words for dev and test, as long as enough of the others hold each of their characters."""
    left = Counter(character for word in words for character in set(word.text))
    splits: dict[str, list[Utterance]] = {"train": [], **{split: [] for split in HELD_OUT}}
    for word in rng.sample(words, len(words)):
        wanting = next((split for split, count in HELD_OUT.items() if len(splits[split]) < count), None)
        if wanting and min(left[character] for character in word.text) > KNOWN:
            splits[wanting].append(word)
            left.subtract(set(word.text))
        else:
            splits["train"].append(word)
    return splits


def read(words: list[Utterance]) -> list[WordString]:
    with Progress("reading", len(words), "words") as progress:
        found = []
        for word in words:
            found.append(WordString(read_audio(word.audio_path, RATE)[0].numpy(), word.text, SPEAKER))
            progress.step()
    return found


if __name__ == "__main__":
    run_script(main)
