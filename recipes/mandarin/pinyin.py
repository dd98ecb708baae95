"""Pronunciations of Mandarin in pinyin, and the characters that a model writes.

    python recipes/mandarin/pinyin.py SENTENCES MANIFEST... --lexicon LEXICON --characters CHARACTERS

LEXICON gets each character with the readings that it has in SENTENCES, the most frequent first, and the words of the
manifests in which a character is read otherwise (银行 in2 | h ang2). CHARACTERS gets those of the manifests and those
that are frequent in SENTENCES. Readings in context are those of pypinyin, which must be installed.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from pypinyin import Style, lazy_pinyin
from pypinyin.seg import mmseg

from ds2.cli.recipe_scripts import run_script
from ds2.data.manifest import read_manifest
from ds2.data.phone_sets import PINYIN
from ds2.text import IDEOGRAPH
from ds2.utils.files import numbered_lines, write_lines

Reading = str  # an initial, if there is one, and a final with its tone: in2, h ang2
RARE = 0.03  # share of a reading among those of a character that the lexicon leaves out
FREQUENT = 30  # times that a character is in SENTENCES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--characters", type=Path, required=True)
    arguments = parser.parse_args()
    spoken = [utterance.text for path in arguments.manifests for utterance in read_manifest(path)]
    found: defaultdict[str, Counter[Reading]] = defaultdict(Counter)
    for sentence in [*spoken, *(line for _, line in numbered_lines(arguments.sentences))]:
        for character, reading in read(sentence):
            found[character][reading] += 1
    lexicon = {character: common(readings) for character, readings in found.items()}
    write_lines(arguments.lexicon, sorted([*characters(lexicon), *words(spoken, lexicon)]))
    frequent = {character for character, readings in found.items() if readings.total() >= FREQUENT}
    write_lines(arguments.characters, sorted(frequent.union(*spoken) - {" "}))


def read(text: str) -> Iterator[tuple[str, Reading]]:
    """Each ideograph with its reading in context; those that pinyin's phones cannot spell are left out."""
    for run in re.findall(f"{IDEOGRAPH}+", text):
        for character, reading in zip(run, readings(run), strict=True):
            if reading:
                yield character, reading


def readings(run: str) -> list[Reading]:
    """The readings of ideographs in a row; empty for one that the phones cannot spell."""
    initials = lazy_pinyin(run, Style.INITIALS, errors=unread)
    finals = lazy_pinyin(run, Style.FINALS_TONE3, errors=unread, neutral_tone_with_five=True)
    parts = ([part for part in pair if part] for pair in zip(initials, finals, strict=True))
    return [" ".join(each) if each and all(map(PINYIN.knows, each)) else "" for each in parts]


def unread(run: str) -> list[str]:
    """For ideographs that pypinyin does not know."""
    return [""] * len(run)


def common(found: Counter[Reading]) -> list[Reading]:
    """The readings that are not rare, the most frequent first."""
    return [reading for reading, count in found.most_common() if count >= RARE * found.total()]


def characters(lexicon: dict[str, list[Reading]]) -> Iterator[str]:
    for character, own in lexicon.items():
        for number, reading in enumerate(own, 1):
            yield f"{character if number == 1 else f'{character}({number})'} {reading}"


def words(texts: Iterable[str], lexicon: dict[str, list[Reading]]) -> set[str]:
    """The words of several characters in which one is not read as it is most often."""
    found = set()
    for run in {run for text in texts for run in re.findall(f"{IDEOGRAPH}+", text)}:
        parts, place = readings(run), 0
        for word in mmseg.seg.cut(run):
            own, place = parts[place : place + len(word)], place + len(word)
            if len(word) > 1 and all(own) and own != [lexicon[character][0] for character in word]:
                found.add(f"{word} {' | '.join(own)}")
    return found


if __name__ == "__main__":
    run_script(main)
