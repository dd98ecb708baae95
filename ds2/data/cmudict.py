"""Pronunciations: words as phones, from a dictionary in the format of CMUdict; the targets of a second CTC output.

    cat  K AE1 T            a word, white space, its phones; stress digits are dropped
    a(2)  EY1 # a letter    another pronunciation of a word; # begins a comment

The phones of a sentence have a space between words, like its characters.
"""

import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ds2.text import BLANK_TOKEN
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines

PHONES = tuple(
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()
)
TOKENS = (BLANK_TOKEN, " ", *PHONES)  # tokens of the output, blank first
INDEX = {token: number for number, token in enumerate(TOKENS)}
SPACE = INDEX[" "]

Pronunciation = tuple[int, ...]  # indices of TOKENS
Pronunciations = dict[str, list[Pronunciation]]  # at least one for each word, the most frequent first


def read_pronunciations(path: str | Path) -> Pronunciations:
    """Reads a dictionary, plain or compressed as .xz.

    Raises:
        InputError: the file cannot be read, a line has no phones, or a phone is not one of CMUdict's.
    """
    path = Path(path)
    found: Pronunciations = {}
    for number, line in _lines(path):
        word, *phones = line.partition(" #")[0].split() or [""]
        if not word or word.startswith(";;;"):
            continue
        try:
            pronunciation = tuple(INDEX[phone.rstrip("012")] for phone in phones)
        except KeyError as error:
            raise InputError(f"{path}:{number}: {error.args[0]} is no phone of CMUdict: {', '.join(PHONES)}") from None
        if not pronunciation:
            raise InputError(f"{path}:{number}: expected a word and its phones, got {line!r:.60}")
        own = found.setdefault(re.sub(r"\(\d+\)$", "", word), [])
        if pronunciation not in own:
            own.append(pronunciation)
    return found


def phone_targets(texts: Sequence[str], pronunciations: Mapping[str, Sequence[Pronunciation]]) -> tuple[Tensor, Tensor]:
    """(B, L) phones of normalised texts, by each word's first pronunciation, padded with zeros; (B,) their lengths.

    A text with a word that has no pronunciation gets the length 0.
    """
    rows = [torch.tensor(_phone_numbers(text.split(), pronunciations), dtype=torch.long) for text in texts]
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths


def phone_text(labels: Iterable[int]) -> str:
    """Phones as text, with a bar between words: K AE T | S AE T."""
    return " ".join("|" if label == SPACE else TOKENS[label] for label in labels)


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
