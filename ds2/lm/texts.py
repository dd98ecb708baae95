"""Texts from which language models are made: sentences, a line each, and lists of words."""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from ds2.lm.mixing import best_weights
from ds2.lm.orders import BEGIN, END, UNKNOWN
from ds2.text import normalize
from ds2.utils.errors import InputError
from ds2.utils.files import text_lines

SAMPLE = 1000  # sentences of each text that are checked for capitals and punctuation
LINE_SECONDS = 20.0  # between two lines on how much of a text has been read

logger = logging.getLogger(__name__)


def read_sentences(path: Path, characters: bool = False, language: str | None = None) -> Iterator[list[str]]:
    """The words of each line of a text file, plain or gzipped, or its characters without the spaces.

    Of a manifest (.jsonl) the texts are read.

    Args:
        language: brings the text to the normal form of this language, see `ds2.text.normalize`; None: as it is.

    Raises:
        InputError: the file cannot be read, or has no sentence.
    """
    empty = True
    for line in _texts_of_manifest(path) if path.suffix == ".jsonl" else text_lines(path):
        if words := (line if language is None else normalize(line, language)).split():
            empty = False
            yield list("".join(words)) if characters else words
    if empty:
        raise InputError(f"{path}: no sentence in it")


def _texts_of_manifest(path: Path) -> Iterator[str]:
    for number, line in enumerate(text_lines(path), 1):
        try:
            text = json.loads(line)["text"]
        except (ValueError, TypeError, KeyError):
            text = None
        if not isinstance(text, str):
            raise InputError(f"{path}:{number}: no line of a manifest with a text; for sentences name it .txt")
        yield text


def count_unusual(texts: Sequence[Path]) -> tuple[Counter[str], int]:
    """The words with capitals or punctuation among the first sentences of texts, and the number of all words there.

    Raises:
        InputError: a text cannot be read, or has no sentence.
    """
    words = Counter(word for path in texts for sentence in islice(read_sentences(path), SAMPLE) for word in sentence)
    unusual = Counter({word: count for word, count in words.items() if normalize(word) != word})
    return unusual, words.total()


def with_progress(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """The sentences; now and then a line is logged that says how many have been read."""
    number, logged = 0, time.monotonic()
    for number, sentence in enumerate(sentences, 1):
        yield sentence
        if number % 1000 == 0 and time.monotonic() - logged >= LINE_SECONDS:
            logged = time.monotonic()
            logger.info("read %s sentences", f"{number:,}")
    logger.info("read %s sentences; counting", f"{number:,}")


def choose_words(
    texts: Sequence[Path], dev: Path, size: int, language: str | None = None
) -> tuple[list[str], list[float]]:
    """The most probable words in the mixture of texts that best predicts `dev`, word by word; the texts' weights.

    With a language the texts are normalised first.

    Raises:
        InputError: a text cannot be read, has no sentence, or has none of the words of dev.
    """
    counts = [
        Counter(word for sentence in read_sentences(path, language=language) for word in sentence) for path in texts
    ]
    shares = [(count, 1 / count.total()) for count in counts]
    asked = [word for sentence in read_sentences(dev, language=language) for word in sentence]
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
