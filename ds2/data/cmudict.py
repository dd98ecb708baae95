"""Pronunciations: words as phones, from a dictionary in the format of CMUdict; the targets of a second CTC output.

    cat  K AE1 T            a word, white space, its phones; the stress digits of CMUdict's are dropped
    a(2)  EY1 # a letter    another pronunciation of a word; # begins a comment
    银行  in2 | h ang2       several syllables of pinyin, each of which is a word of the search

The phones of a sentence have a space between words, like its characters.
"""

import lzma
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ds2.data.phone_sets import CMUDICT, PINYIN, SPACE, PhoneSet
from ds2.text import split_words
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines

Pronunciation = tuple[int, ...]  # outputs of the model
Pronunciations = dict[str, list[Pronunciation]]  # at least one for each word, the most frequent first
LONGEST = 8  # ideographs of a word with a pronunciation of its own


def read_pronunciations(path: str | Path, phones: PhoneSet | None = None) -> Pronunciations:
    """Reads a dictionary, plain or compressed as .xz.

    Args:
        phones: of the model; by default those that the first line has.

    Raises:
        InputError: the file cannot be read, a line has no phones, or a phone is not one of them.
    """
    path = Path(path)
    found: Pronunciations = {}
    for number, line in _lines(path):
        word, *spoken = line.partition(" #")[0].split() or [""]
        if not word or word.startswith(";;;"):
            continue
        if not spoken:
            raise InputError(f"{path}:{number}: expected a word and its phones, got {line!r:.60}")
        phones = phones or (CMUDICT if CMUDICT.knows(spoken[0]) else PINYIN)
        if unknown := [phone for phone in spoken if not phones.knows(phone)]:
            listed = ", ".join(phones.phones)
            raise InputError(f"{path}:{number}: {unknown[0]} is no phone of {phones.name}: {listed:.400}")
        own = found.setdefault(re.sub(r"\(\d+\)$", "", word), [])
        if (pronunciation := phones.numbers(spoken)) not in own:
            own.append(pronunciation)
    return found


def phone_targets(texts: Sequence[str], pronunciations: Mapping[str, Sequence[Pronunciation]]) -> tuple[Tensor, Tensor]:
    """(B, L) phones of normalised texts, by each word's first pronunciation, padded with zeros; (B,) their lengths.

    A text with a word that has no pronunciation gets the length 0.
    """
    words = (list(_pronounced_words(text, pronunciations)) for text in texts)
    rows = [torch.tensor(_phone_numbers(each, pronunciations), dtype=torch.long) for each in words]
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths


def _pronounced_words(text: str, pronunciations: Container[str]) -> Iterator[str]:
    """The words of a text; from left to right the longest ones of several ideographs that have a pronunciation."""
    for part in text.split():
        units, place = split_words(part), 0
        while place < len(units):
            sizes = range(min(LONGEST, len(units) - place), 1, -1)
            size = next((size for size in sizes if "".join(units[place : place + size]) in pronunciations), 1)
            yield "".join(units[place : place + size])
            place += size


def _phone_numbers(words: Sequence[str], pronunciations: Mapping[str, Sequence[Pronunciation]]) -> list[int]:
    if not all(word in pronunciations for word in words):
        return []
    joined: list[int] = []
    for word in words:
        joined += [SPACE, *pronunciations[word][0]]
    return joined[1:]


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    if path.suffix != ".xz":
        return numbered_lines(path)
    try:
        return list(enumerate(lzma.decompress(path.read_bytes()).decode("utf-8").splitlines(), 1))
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
