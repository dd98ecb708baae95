"""Compiled manifests: Arrow files that are mapped into memory, so that ten million utterances open at once.

    manifest.jsonl  --compile_manifest: checked once-->  corpus.arrow  --CompiledManifest-->  columns, or utterances

Processes of one machine share the mapping; an utterance becomes a Python object only when it is asked for.
"""

import functools
import itertools
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ds2.data.arrow_file import mapped_batches
from ds2.data.columnar import Columnar
from ds2.data.manifest_lines import (
    MOST_CHARACTERS,
    MOST_SECONDS,
    Block,
    Line,
    absolute_audio,
    checked_line,
    duplicate,
    read_blocks,
    relative_audio,
)
from ds2.data.parquet_file import iter_blocks
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, printable
from ds2.utils.files import atomic_write
from ds2.utils.object_storage import fetched

if TYPE_CHECKING:
    import pyarrow

SUFFIX = ".arrow"
FORMAT = {b"ds2": b"1"}  # raised when a reader of the old form could not read the new one
ROWS = 1 << 16  # of a table in Parquet that are read at once
KINDS = {  # of the columns, as Arrow names them
    "audio": "string",  # path, relative to the folder of the file or absolute, or URL
    "duration": "double",  # seconds
    "text": "string",
    "offset": "double",  # seconds, or NULL
    "speaker": "string",
    "lang": "string",
    "extra": "string",  # a JSON object, or NULL
    "line": "int64",  # of the manifest
}
MAY_BE_NULL = ("offset", "speaker", "lang", "extra")
LONGEST = {**MOST_CHARACTERS, "audio": MOST_CHARACTERS["audio_filepath"]}


class CompiledManifest(Columnar):
    """The utterances of a compiled manifest, in the order of its lines."""

    def __init__(self, path: str | Path):
        """Maps the file into memory.

        Raises:
            InputError: missing, damaged, or not a compiled manifest.
        """
        import pyarrow

        self.path = Path(path)
        try:
            batches = mapped_batches(self.path, schema())
        except FileNotFoundError as error:
            raise InputError(f"{path}: cannot be read (No such file or directory)") from error
        except (OSError, struct.error, pyarrow.ArrowException) as error:
            reason = f"not a readable compiled manifest ({error!s:.80})"
            raise InputError(f"{path}: {reason}; compile it again") from error
        if batches is None:
            raise InputError(f"{path}: not a manifest that this version of ds2 has compiled; compile it again")
        self.batches = batches
        self.ends = np.cumsum([len(batch) for batch in self.batches])
        self.checked: set[int] = set()  # numbers of batches
        if not len(self):
            raise InputError(f"{path}: the manifest holds no utterance")

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def utterance(self, number: int) -> Utterance:
        """The utterance of a line, counted from 0."""
        batch = int(np.searchsorted(self.ends, number, side="right"))
        row = number - (int(self.ends[batch - 1]) if batch else 0)
        return self._utterance([column[row].as_py() for column in self._batch(batch).columns])

    def __iter__(self) -> Iterator[Utterance]:
        for number in range(len(self.batches)):
            for values in zip(*(column.to_pylist() for column in self._batch(number).columns), strict=True):
                yield self._utterance(values)

    def __reduce__(self) -> tuple[type["CompiledManifest"], tuple[Path]]:
        return CompiledManifest, (self.path,)  # another process maps the file, too

    @functools.cached_property
    def durations(self) -> np.ndarray:
        """(n,) seconds."""
        columns = [self._checked(batch.column("duration"), "duration") for batch in self.batches]
        return np.concatenate([column.to_numpy() for column in columns])

    def values(self, name: str) -> Iterator[Any]:
        """In order, a block of the file in memory at a time."""
        for number in range(len(self.batches)):
            yield from self._batch(number).column(name).to_pylist()

    def folders(self) -> tuple[np.ndarray, list[Path]]:
        """(n,) numbers of folders, and the folders that they number."""
        import pyarrow.compute

        numbers: dict[str, int] = {}
        parts = []
        for number in range(len(self.batches)):
            audio = self._batch(number).column("audio")
            folders = pyarrow.compute.replace_substring_regex(audio, "/?[^/]*$", "").dictionary_encode()
            here = [numbers.setdefault(name, len(numbers)) for name in folders.dictionary.to_pylist()]
            parts.append(np.array(here, np.int32)[folders.indices.to_numpy()])
        return np.concatenate(parts), [Path(self._absolute(name)) for name in numbers]

    @functools.cached_property
    def _absolute(self) -> Callable[[str], str]:
        return absolute_audio(self.path.parent)

    def _batch(self, number: int) -> "pyarrow.RecordBatch":
        """A block of the file, which is checked once."""
        batch = self.batches[number]
        if number not in self.checked:
            for name in KINDS:
                self._checked(batch.column(name), name)
            self.checked.add(number)
        return batch

    def _checked(self, column: "pyarrow.Array", name: str) -> "pyarrow.Array":
        """The same column.

        Raises:
            InputError: its offsets are wrong and would crash the process, or no manifest may have its values.
        """
        import pyarrow

        try:
            column.validate(full=True)
            possible = _is_possible(column, name)
        except pyarrow.ArrowException as error:
            raise self._damaged(str(error)) from error
        if not possible:
            raise self._damaged(f"a {name} that no manifest may have")
        return column

    def _damaged(self, reason: str) -> InputError:
        return InputError(f"{self.path}: damaged ({printable(reason):.80}); compile it again")

    def _utterance(self, values: Sequence[Any]) -> Utterance:
        audio, duration, text, offset, speaker, lang, extra, line = values
        try:
            others = {} if extra is None else json.loads(extra)
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from error
        if not isinstance(others, dict):
            raise self._damaged("an extra that is not an object")
        place = f"{self.path}:{line}"
        return Utterance(Path(self._absolute(audio)), duration, text, offset, speaker, lang, others, place)


def _is_possible(column: "pyarrow.Array", name: str) -> bool:
    """Whether a manifest may have the values of a column, which is valid as such."""
    import pyarrow.compute

    if column.null_count and name not in MAY_BE_NULL:
        return False
    if name in LONGEST:
        return (pyarrow.compute.max(pyarrow.compute.utf8_length(column)).as_py() or 0) <= LONGEST[name]
    if name not in ("duration", "offset"):
        return True
    seconds = column.drop_null().to_numpy()
    least = seconds > 0 if name == "duration" else seconds >= 0
    return bool((least & (seconds <= MOST_SECONDS)).all())


def compile_manifest(source: Path, target: Path, step: Callable[[int], object] = lambda count: None) -> int:
    """Checks a manifest, JSON Lines or Parquet of the same columns, and writes it compiled; returns its utterances.

    Memory is that of a block of lines and 8 bytes for each utterance, to find duplicates. `step` gets the utterances
    of each block.

    Raises:
        InputError: as `read_manifest`, naming the line; the target cannot be written.
    """
    import pyarrow

    source = fetched(source)
    absolute, relative = absolute_audio(source.parent), relative_audio(target.parent)
    hashes, numbers, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)], schema()
    with atomic_write(target) as partial, pyarrow.OSFile(str(partial), "wb") as file:
        with pyarrow.ipc.new_file(file, columns) as writer:
            for block in _table_blocks(source) if source.suffix == ".parquet" else read_blocks(source):
                audio = [absolute(line.audio_filepath) for line in block.lines]
                writer.write_batch(_batch(block, list(map(relative, audio)), columns, source))
                hashes.append(_hashes(block, audio))
                numbers.append(np.asarray(block.numbers, np.int64))
                step(len(audio))
        count = _refuse_duplicates(source, np.concatenate(hashes), np.concatenate(numbers))
        if not count:
            raise InputError(f"{source}: the manifest holds no utterance")
    return count


def write_compiled(target: Path, utterances: Iterable[Utterance]) -> None:
    """Writes utterances that were checked before as a compiled manifest, whole or not at all."""
    import pyarrow

    relative, columns = relative_audio(target.parent), schema()
    rows = enumerate(utterances, 1)
    with (
        atomic_write(target) as partial,
        pyarrow.OSFile(str(partial), "wb") as file,
        pyarrow.ipc.new_file(file, columns) as writer,
    ):
        while part := list(itertools.islice(rows, ROWS)):
            lines = [Line("", each.duration, each.text, each.offset, each.speaker, each.lang) for _, each in part]
            block = Block([number for number, _ in part], lines, [each.extra for _, each in part])
            audio = [relative(str(each.audio_path.absolute())) for _, each in part]
            writer.write_batch(_batch(block, audio, columns, target))


def schema() -> "pyarrow.Schema":
    """The columns of a compiled manifest and their types."""
    import pyarrow

    return pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in KINDS.items()], metadata=FORMAT)


def _batch(block: Block, audio: list[str], columns: "pyarrow.Schema", path: Path) -> "pyarrow.RecordBatch":
    import pyarrow

    numbered = zip(block.numbers, block.extras, strict=True)
    extras = [_as_json(extra, f"{path}: row {number}") if extra else None for number, extra in numbered]
    usual = [
        [getattr(line, name) for line in block.lines] for name in ("duration", "text", "offset", "speaker", "lang")
    ]
    values = [audio, *usual, extras, list(block.numbers)]
    arrays = [pyarrow.array(each, field.type) for each, field in zip(values, columns, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=columns)


def _as_json(extra: dict[str, Any], place: str) -> str:
    try:
        return json.dumps(extra, ensure_ascii=True)
    except TypeError as error:  # bytes or dates of a table
        raise InputError(f"{place}: has a column that a manifest cannot hold ({error}); leave it out") from error


def _hashes(block: Block, audio: list[str]) -> np.ndarray:
    """(n,) of what makes an utterance: its file and, of a span of it, where that lies."""
    keys = zip(audio, block.lines, strict=True)
    found = (hash(path if line.offset is None else (path, line.offset, line.duration)) for path, line in keys)
    return np.fromiter(found, np.int64, len(audio))


def _refuse_duplicates(source: Path, hashes: np.ndarray, numbers: np.ndarray) -> int:
    """The number of lines. Raises InputError for the first that repeats another's audio; 64 bits meet by no chance."""
    order = np.argsort(hashes, kind="stable")
    again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if len(again):
        place = again[np.argmin(order[again + 1])]
        raise duplicate(str(source), int(numbers[order[place + 1]]), int(numbers[order[place]]))
    return len(hashes)


def _table_blocks(source: Path) -> Iterator[Block]:
    """The rows of a table in Parquet with the columns of a manifest; rows count from 1."""
    first = 1
    for block in iter_blocks(source, ROWS):
        rows = enumerate(block, first)
        pairs = [checked_line(row, f"{source}: row {number}") for number, row in rows]
        yield Block(range(first, first + len(pairs)), [line for line, _ in pairs], [extra for _, extra in pairs])
        first += len(pairs)
