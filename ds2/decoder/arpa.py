"""ARPA files: the text form of n-gram models, plain or gzipped. Logarithms there are to base 10."""

import gzip
import itertools
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from ds2.decoder.levels import END, UNKNOWN, WORD_BITS, Level
from ds2.decoder.ngram_checks import ABOVE_ZERO, IMPOSSIBLE, MOST_BACKOFF, MOST_ORDER
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

LN_10 = math.log(10.0)
GZIP = b"\x1f\x8b"
HEAD = 4096  # bytes in which \data\ must come
LONGEST_LINE = 100_000  # characters
COUNT = re.compile("[0-9]{1,12}")
DAMAGED = (OSError, EOFError, zlib.error)  # what reading a gzipped file may raise


def is_arpa(path: Path) -> bool:
    """Whether a file begins as an ARPA file does.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with _open(path) as file:
            return "\\data\\" in file.read(HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, EOFError, zlib.error):
        return False


def read_arpa(path: Path) -> tuple[list[str], list[Level]]:
    """The words, <unk> first, and the n-grams of each order.

    Raises:
        InputError: naming the line that is not as it must be.
    """
    words: list[str] = []
    index: dict[str, int] = {}
    levels: list[Level] = []
    try:
        with _open(path) as file:
            lines = _Lines(path, file)
            counts = _counts(lines)
            for order, count in enumerate(counts, 1):
                lines.expect(f"\\{order}-grams:")
                rows = _rows(lines, order, count)
                if order == 1:
                    words = [row[1] for row in rows]
                    if END not in words:
                        raise InputError(f"{path}: {END} is not among the 1-grams; sentences need an end")
                    if UNKNOWN not in words:
                        rows.append((IMPOSSIBLE, UNKNOWN, 0.0))
                        words.append(UNKNOWN)
                    words.sort(key=lambda word: (word != UNKNOWN, word))
                    index = {word: number for number, word in enumerate(words)}
                levels.append(_level(path, rows, index, levels))
            lines.expect("\\end\\")
    except DAMAGED as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text") from error
    return words, levels


def write_arpa(path: Path, words: list[str], levels: list[Level]) -> None:
    """Writes a model whole or not at all; gzipped where the name ends in .gz."""
    texts = [""]  # of each n-gram of the order below
    with (
        atomic_write(path) as partial,
        (gzip.open if path.suffix == ".gz" else open)(partial, "wt", encoding="utf-8") as to,
    ):
        to.write("\\data\\\n" + "".join(f"ngram {k}={len(level.word)}\n" for k, level in enumerate(levels, 1)))
        for order, level in enumerate(levels, 1):
            to.write(f"\n\\{order}-grams:\n")
            own = []
            for prefix, word, log_prob, backoff in zip(
                level.prefix.tolist(), level.word.tolist(), level.log_prob.tolist(), level.backoff.tolist(), strict=True
            ):
                text = f"{texts[prefix]} {words[word]}" if order > 1 else words[word]
                own.append(text)
                shown = max(-99.0, log_prob / LN_10)
                tail = "" if order == len(levels) else f"\t{backoff / LN_10:.7g}"
                to.write(f"{shown:.7g}\t{text}{tail}\n")
            texts = own
        to.write("\n\\end\\\n")


Row = tuple[float, str, float]  # log-probability, words, back-off weight, in natural logarithms


class _Lines:
    """Lines without blank ones, one ahead, with their numbers for error messages."""

    def __init__(self, path: Path, file: "IO[str]"):
        self.path = path
        self.number = 0  # of the line taken last
        self._rest = self._not_blank(file)
        self._ahead = next(self._rest, None)

    def _not_blank(self, file: "IO[str]") -> Iterator[tuple[int, str]]:
        for number in itertools.count(1):
            line = file.readline(LONGEST_LINE + 1)
            if len(line) > LONGEST_LINE:
                raise InputError(f"{self.path}, line {number}: longer than {LONGEST_LINE:,} characters")
            if not line:
                return
            if line.strip():
                yield number, line.rstrip("\r\n")

    @property
    def current(self) -> str:
        """The line that comes next; empty behind the last."""
        return self._ahead[1] if self._ahead else ""

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.number}"

    def take(self) -> str:
        if self._ahead is None:
            raise InputError(f"{self.path}: ends after line {self.number}, before \\end\\: cut off?")
        self.number, line = self._ahead
        self._ahead = next(self._rest, None)
        return line

    def expect(self, wanted: str) -> None:
        line = self.take()
        if line.strip() != wanted:
            raise InputError(f"{self.place}: expected {wanted}, got {line[:40]!r}")


def _counts(lines: _Lines) -> list[int]:
    while lines.take().strip() != "\\data\\":
        pass
    counts: list[int] = []
    while lines.current.startswith("ngram "):
        line = lines.take()
        order, equals, count = line[len("ngram ") :].partition("=")
        if not equals or order.strip() != str(len(counts) + 1) or not COUNT.fullmatch(count.strip()):
            raise InputError(f"{lines.place}: expected ngram {len(counts) + 1}=COUNT, got {line[:40]!r}")
        if len(counts) == MOST_ORDER:
            raise InputError(f"{lines.place}: n-grams of more than {MOST_ORDER} words")
        counts.append(int(count))
    if not counts:
        raise InputError(f"{lines.path}: no counts of n-grams behind \\data\\")
    return counts


def _rows(lines: _Lines, order: int, count: int) -> list[Row]:
    rows = []
    for _ in range(count):
        line = lines.take()
        parts = line.split("\t") if "\t" in line else line.split(" ", 1)
        if len(parts) == 2 and len(fields := parts[1].split()) == order + 1:
            parts = [parts[0], " ".join(fields[:-1]), fields[-1]]
        try:
            log_prob, backoff = float(parts[0]) * LN_10, float(parts[2]) * LN_10 if len(parts) > 2 else 0.0
            if len(parts[1].split()) != order or not log_prob <= ABOVE_ZERO or not abs(backoff) <= MOST_BACKOFF:
                raise ValueError
        except (ValueError, IndexError):
            raise InputError(f"{lines.place}: not a {order}-gram: {line[:60]!r}") from None
        rows.append((max(log_prob, IMPOSSIBLE), parts[1], backoff))
    return rows


def _level(path: Path, rows: list[Row], index: dict[str, int], below: list[Level]) -> Level:
    try:
        numbers = np.array([[index[word] for word in row[1].split()] for row in rows], np.int64)
    except KeyError as error:
        raise InputError(f"{path}: the word {error} stands in an n-gram but not among the 1-grams") from error
    numbers = numbers.reshape(len(rows), len(below) + 1)
    prefix = np.zeros(len(rows), np.int64)
    for level, words in zip(below, numbers.T, strict=False):  # walks down the orders, one word at a time
        wanted, keys = prefix << WORD_BITS | words, level.prefix << WORD_BITS | level.word
        prefix = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        if (missing := np.flatnonzero(keys[prefix] != wanted)).size:
            raise InputError(f"{path}: the n-gram {rows[missing[0]][1]!r} is there, but not its first words")
    last = numbers[:, -1]
    order = np.lexsort((last, prefix))
    if (np.diff((prefix << WORD_BITS | last)[order]) == 0).any():
        raise InputError(f"{path}: a {numbers.shape[1]}-gram stands twice")
    log_prob, backoff = (np.array([row[column] for row in rows], np.float64)[order] for column in (0, 2))
    return Level(prefix[order], last[order], log_prob, backoff)


def _open(path: Path) -> "IO[str]":
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP
    return gzip.open(path, "rt", encoding="utf-8") if zipped else path.open(encoding="utf-8")
