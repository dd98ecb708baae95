"""Texts from which language models are made: sentences, a line each, and lists of words."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ds2.lm.levels import BEGIN, END, UNKNOWN
from ds2.lm.mixing import best_weights
from ds2.utils.errors import InputError
from ds2.utils.files import text_lines


def read_sentences(path: Path, characters: bool = False) -> Iterator[list[str]]:
    """The words of each line of a text file, plain or gzipped, or its characters without the spaces.

    Raises:
        InputError: the file cannot be read, or has no sentence.
    """
    empty = True
    for line in text_lines(path):
        if words := line.split():
            empty = False
            yield list("".join(words)) if characters else words
    if empty:
        raise InputError(f"{path}: no sentence in it")


def choose_words(texts: Sequence[Path], dev: Path, size: int) -> tuple[list[str], list[float]]:
    """The most probable words in the mixture of texts that best predicts `dev`, word by word; the texts' weights.

    Raises:
        InputError: a text cannot be read, has no sentence, or has none of the words of dev.
    """
    counts = [Counter(word for sentence in read_sentences(path) for word in sentence) for path in texts]
    shares = [(count, 1 / count.total()) for count in counts]
    asked = [word for sentence in read_sentences(dev) for word in sentence]
    weights = best_weights(np.array([[count[word] * share for count, share in shares] for word in asked]))
    mixed: Counter[str] = Counter()
    for (count, share), weight in zip(shares, weights.tolist(), strict=True):
        mixed.update({word: weight * share * number for word, number in count.items()})
    return sorted(mixed, key=lambda word: (-mixed[word], word))[:size], weights.tolist()


def read_words(path: Path) -> tuple[str, ...]:
    """Reads a list of words, one per line, without repetitions.

    Raises:
        InputError: the file cannot be read, or holds no word.
    """
    words = tuple(dict.fromkeys(word for line in read_sentences(path) for word in line))
    return tuple(word for word in words if word not in (BEGIN, END, UNKNOWN))
