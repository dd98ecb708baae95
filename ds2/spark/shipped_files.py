"""Files that belong to a stage, such as its model: on their way to the executors, and within a saved stage."""

import functools
import hashlib
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import Row, SparkSession

from ds2.utils.errors import InputError

CHUNK = 1 << 24  # bytes of a file in one row of a saved stage


def ship(spark: SparkSession, path: Path) -> str:
    """Puts a file on all executors, present and future; returns the name that `shipped` finds there.

    Each executor fetches it once. The name holds a hash of the bytes: two files of one name do not meet.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    target = folder() / f"ds2-{digest}{''.join(path.suffixes[-2:])}"
    if not target.exists():
        shutil.copyfile(path, target)
    spark.addArtifacts(str(target), file=True)
    return target.name


def shipped(name: str) -> Path:
    """On an executor, where a file of `ship` lies."""
    return Path(SparkFiles.get(name))


@functools.cache
def folder() -> Path:
    """A folder of this process, which is removed when it ends."""
    return Path(_temporary().name)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ds2-spark-")


def save(spark: SparkSession, files: dict[str, list[Path]], target: str) -> None:
    """Writes the bytes of files, by the name of the setting that they belong to, as a table."""
    rows = [
        (setting, number, path.name, at, chunk)
        for setting, paths in files.items()
        for number, path in enumerate(paths)
        for at, chunk in enumerate(_chunks(path))
    ]
    kinds = "setting string, number int, name string, at int, data binary"
    spark.createDataFrame(rows, kinds).coalesce(1).write.parquet(target)


def restore(rows: Iterable[Row], settings: Collection[str]) -> dict[str, list[Path]]:
    """Writes the files of the rows that `save` wrote, in order, into a folder of this process.

    Raises:
        InputError: a row is of none of these settings.
    """
    found: dict[str, list[Path]] = {}
    target = Path(tempfile.mkdtemp(dir=folder()))
    for row in rows:
        name = Path(row["name"]).name
        if row["setting"] not in settings or name in ("", ".."):
            raise InputError(f"a saved stage has no file {row['name']!r:.60} of {row['setting']!r:.60}; save it again")
        path = target / f"{row['setting']}{row['number']}" / name
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(row["data"])
        if row["at"] == 0:
            found.setdefault(row["setting"], []).append(path)
    return found


def _chunks(path: Path) -> Iterator[bytearray]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield bytearray(chunk)
