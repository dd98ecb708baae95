"""ARPA files: the text format of n-gram models, plain or gzipped, with logarithms to base 10."""

import gzip
import itertools
import math
import re
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from ds2.lm.checks import MOST_ORDER
from ds2.lm.orders import END, UNKNOWN, WORD_BITS, NGramOrder
from ds2.utils.errors import InputError
from ds2.utils.files import LARGE_TEXT, MOST_RATIO, atomic_write

LN_10 = math.log(10.0)
GZIP = b"\x1f\x8b"
BLOCK = 1 << 10  # lines read at once: more lines leave the cache, and start the garbage collector
HEAD = 4096  # bytes in which \data\ must occur
IMPOSSIBLE = -99.0  # log-probability of an impossible word
ABOVE_ZERO = 0.004  # by which rounding may raise a log-probability above 0
MOST_BACKOFF = 400.0  # largest absolute value
LONGEST_LINE = 100_000  # characters
COUNT = re.compile("[0-9]{1,12}")
DAMAGED = (OSError, EOFError, zlib.error)  # errors that reading a gzipped file may raise


def is_arpa(path: Path) -> bool:
    """Whether a file begins like an ARPA file.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with _open_text(path) as file:
            return "\\data\\" in file.read(HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (UnicodeDecodeError, EOFError, zlib.error):
        return False


def read_arpa(path: Path) -> tuple[list[str], list[NGramOrder]]:
    """The words, <unk> first, and the n-grams of each order.

    Raises:
        InputError: a line is wrong; the message names it.
    """
    words: list[str] = []
    orders: list[NGramOrder] = []
    try:
        with _open_text(path) as file:
            # The parts of the file in their order: the counts, single words, which get their numbers here, then each
            # longer order.
            lines = _ArpaLines(path, file)
            counts = _counts(lines)
            lines.expect("\\1-grams:")
            words, first = _single_words(lines, counts[0])
            orders.append(first)
            index = {word: number for number, word in enumerate(words)}
            for order, count in enumerate(counts[1:], 2):
                lines.expect(f"\\{order}-grams:")
                blocks = [_block(lines, order, size, index) for size in _sizes(count)]
                orders.append(_sorted(path, _joined_blocks(blocks, order), words, orders))
            lines.expect("\\end\\")
    except DAMAGED as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text") from error
    return words, orders


def write_arpa(path: Path, words: list[str], orders: list[NGramOrder]) -> None:
    """Writes a model atomically; gzipped if the name ends in .gz."""
    texts = [""]  # texts of the n-grams of the order below
    with (
        atomic_write(path) as partial,
        (gzip.open if path.suffix == ".gz" else open)(partial, "wt", encoding="utf-8") as to,
    ):
        to.write("\\data\\\n" + "".join(f"ngram {k}={len(grams.word)}\n" for k, grams in enumerate(orders, 1)))
        for order, grams in enumerate(orders, 1):
            to.write(f"\n\\{order}-grams:\n")
            own = []
            for prefix, word, log_prob, backoff in zip(
                grams.prefix.tolist(), grams.word.tolist(), grams.log_prob.tolist(), grams.backoff.tolist(), strict=True
            ):
                text = f"{texts[prefix]} {words[word]}" if order > 1 else words[word]
                own.append(text)
                shown = max(IMPOSSIBLE, log_prob / LN_10)
                tail = "" if order == len(orders) else f"\t{backoff / LN_10:.7g}"
                to.write(f"{shown:.7g}\t{text}{tail}\n")
            texts = own
        to.write("\n\\end\\\n")


Row = tuple[float, list[str], float]  # log-probability, words, back-off weight, to base 10


class _Block(NamedTuple):
    """Lines of n-grams: words (K, order) as numbers; log_probs, backoffs (K,) to base 10."""

    words: np.ndarray
    log_probs: np.ndarray
    backoffs: np.ndarray


class _ArpaLines:
    """The lines that are not blank, with one line of look-ahead, and with their numbers for error messages."""

    def __init__(self, path: Path, file: "IO[str]"):
        self.path = path
        self.number = 0  # number of the last line taken
        self._rest = self._not_blank(file)
        self._ahead = next(self._rest, None)

    def _not_blank(self, file: "IO[str]") -> Iterator[tuple[int, str]]:
        done, most = 0, max(LARGE_TEXT, MOST_RATIO * self.path.stat().st_size)
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), ""), 1):
            if len(line) > LONGEST_LINE:
                raise InputError(f"{self.path}, line {number}: longer than {LONGEST_LINE:,} characters")
            done += len(line)
            if done > most:
                raise InputError(f"{self.path}: packed over {MOST_RATIO} to 1, which no model is; unpack it")
            if line.strip():
                yield number, line.rstrip("\r\n")

    @property
    def current(self) -> str:
        """The next line; empty after the last one."""
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

    def take_many(self, count: int) -> list[tuple[int, str]]:
        """At most `count` lines with their numbers; fewer at the end of the file, where the next `take` raises."""
        if self._ahead is None:
            return []
        numbered = [self._ahead, *itertools.islice(self._rest, count - 1)]
        self.number, _ = numbered[-1]
        self._ahead = next(self._rest, None)
        return numbered

    def expect(self, wanted: str) -> None:
        line = self.take()
        if line.strip() != wanted:
            raise InputError(f"{self.place}: expected {wanted}, got {line[:40]!r}")


def _counts(lines: _ArpaLines) -> list[int]:
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


def _sizes(count: int) -> Iterator[int]:
    return (min(BLOCK, count - start) for start in range(0, count, BLOCK))


def _single_words(lines: _ArpaLines, count: int) -> tuple[list[str], NGramOrder]:
    rows, known = [], set[str]()
    for _ in range(count):
        rows.append(row := _parsed_line(lines, lines.take(), 1))
        known.add(row[1][0])
        if len(known) < len(rows):  # at once: a packed file can repeat a line without end
            raise InputError(f"{lines.place}: a 1-gram stands twice: {row[1][0]:.60}")
    if all(row[1] != [UNKNOWN] for row in rows):
        rows.append((IMPOSSIBLE, [UNKNOWN], 0.0))
    if all(row[1] != [END] for row in rows):
        raise InputError(f"{lines.path}: {END} is not among the 1-grams; sentences need an end")
    rows.sort(key=lambda row: (row[1] != [UNKNOWN], row[1]))
    words = [row[1][0] for row in rows]
    log_probs, backoffs = (np.array([row[column] for row in rows]) * LN_10 for column in (0, 2))
    return words, NGramOrder(np.zeros(len(rows), np.int64), np.arange(len(rows)), log_probs, backoffs)


def _parsed_line(lines: _ArpaLines, line: str, order: int) -> Row:
    """The fields of a line, usually between tabs, otherwise between spaces."""
    parts = line.split("\t") if "\t" in line else line.split(" ", 1)
    if len(parts) == 2 and len(fields := parts[1].split()) == order + 1:
        parts = [parts[0], " ".join(fields[:-1]), fields[-1]]
    try:
        log_prob, words, backoff = float(parts[0]), parts[1].split(), float(parts[2]) if len(parts) > 2 else 0.0
        if len(words) != order or not log_prob <= ABOVE_ZERO or not abs(backoff) <= MOST_BACKOFF:
            raise ValueError
    except (ValueError, IndexError):
        raise InputError(f"{lines.place}: not a {order}-gram: {line[:60]!r}") from None
    return max(log_prob, IMPOSSIBLE), words, backoff


def _block(lines: _ArpaLines, order: int, count: int, index: dict[str, int]) -> _Block:
    """The next lines, column by column; if a line is unusual, line by line, which names the wrong one."""
    taken = lines.take_many(count)
    try:
        block = _whole_block([line for _, line in taken], order, index)
    except (ValueError, KeyError, IndexError):
        block = _checked_block(lines, taken, order, index)
    if len(taken) < count:
        lines.take()  # raises: the file is cut off
    return block


def _whole_block(taken: list[str], order: int, index: dict[str, int]) -> _Block:
    fields = [line.split("\t") for line in taken]
    texts = [field[1] for field in fields]
    if any(text.count(" ") != order - 1 for text in texts):
        raise ValueError
    words = np.fromiter(map(index.__getitem__, " ".join(texts).split(" ")), np.int64, order * len(texts))
    log_probs = np.array([float(field[0]) for field in fields])
    backoffs = np.array([float(field[2]) if len(field) > 2 else 0.0 for field in fields])
    if not ((log_probs <= ABOVE_ZERO) & (np.abs(backoffs) <= MOST_BACKOFF)).all():  # false for NaN too
        raise ValueError
    return _Block(words.reshape(-1, order), np.maximum(log_probs, IMPOSSIBLE), backoffs)


def _checked_block(lines: _ArpaLines, taken: list[tuple[int, str]], order: int, index: dict[str, int]) -> _Block:
    rows = []
    for lines.number, line in taken:
        rows.append(_parsed_line(lines, line, order))
    try:
        words = np.array([[index[word] for word in row[1]] for row in rows], np.int64)
    except KeyError as error:
        raise InputError(
            f"{lines.path}: the word {error!s:.60} stands in an n-gram but not among the 1-grams"
        ) from error
    return _Block(words, np.array([row[0] for row in rows]), np.array([row[2] for row in rows]))


def _joined_blocks(blocks: list[_Block], order: int) -> _Block:
    empty = _Block(np.zeros((0, order), np.int64), np.zeros(0), np.zeros(0))
    return _Block(*(np.concatenate(columns) for columns in zip(empty, *blocks, strict=True)))


def _sorted(path: Path, block: _Block, words: list[str], below: list[NGramOrder]) -> NGramOrder:
    prefix = np.zeros(len(block.words), np.int64)
    for grams, column in zip(below, block.words.T, strict=False):  # walks down the orders, one word at a time
        wanted, keys = prefix << WORD_BITS | column, grams.prefix << WORD_BITS | grams.word
        prefix = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        if (missing := np.flatnonzero(keys[prefix] != wanted)).size:
            text = " ".join(words[number] for number in block.words[missing[0]])
            raise InputError(f"{path}: the n-gram {text!r:.60} is there, but not its first words")
    last = block.words[:, -1]
    order = np.lexsort((last, prefix))
    if (np.diff((prefix << WORD_BITS | last)[order]) == 0).any():
        raise InputError(f"{path}: a {len(below) + 1}-gram stands twice")
    return NGramOrder(prefix[order], last[order], LN_10 * block.log_probs[order], LN_10 * block.backoffs[order])


def _open_text(path: Path) -> "IO[str]":
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP
    return gzip.open(path, "rt", encoding="utf-8") if zipped else path.open(encoding="utf-8")
