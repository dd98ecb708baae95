"""Stages that read recordings: where these come from, and where results and errors go."""

import re
from pathlib import Path

from pyspark.ml import Transformer
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, lit, struct, when
from pyspark.sql.types import DataType

from ds2.audio.files import InMemory
from ds2.data.utterance import RecordingSpan
from ds2.spark.executor_work import Row, Work, computed
from ds2.spark.stage import Setting, Stage, require_kind, text
from ds2.utils.errors import ParameterError


class RecordingStage(Transformer, Stage):
    """A table with recordings in, the same table with a column of results and a column of errors out.

    A row has the bytes of a whole file in `inputCol`, or in `pathCol` its path on a file system that all executors
    see; where both are set, the path is the file's name in messages. A row whose recording is NULL gives NULL.
    """

    inputCol = Setting("column with the bytes of a whole file, binary", text)
    pathCol = Setting("column with the path of a file that all executors see, string", text)
    outputCol = Setting("column of results to add", text)
    errorCol = Setting("column of errors to add, NULL where there is none; by default outputCol_error", text)

    work: Work  # runs on the executors
    kind: DataType  # of a result

    def others(self, dataset: DataFrame) -> dict[str, Column]:
        """Further columns that `work` gets; a row is NULL where one of them is."""
        return {}

    def finished(self, result: Column) -> Column:
        """The column of results, made of those of `work`."""
        return result

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Adds the columns.

        Raises:
            ParameterError: a setting is missing; a column is missing, of the wrong type, or there already.
            InputError: a file that belongs to the stage cannot be read.
        """
        output = self.value("outputCol")
        error = self.value("errorCol") or f"{output}_error"
        for setting, name in (("outputCol", output), ("errorCol", error)):
            if name in dataset.columns:
                raise ParameterError(setting, f"the table has a column {name} already; name another")
        source = self._source(dataset)
        both, settings = f"{self.uid}_both", self.shipped_settings(dataset.sparkSession)
        table = dataset.withColumn(both, computed(type(self).work, settings, source, self.kind))
        return table.withColumns({output: self.finished(col(f"{both}.result")), error: col(f"{both}.error")}).drop(both)

    def _source(self, dataset: DataFrame) -> Column:
        """A struct of audio, path and the other columns; NULL where one of them that is set is NULL."""
        columns = {"audio": lit(None).cast("binary"), "path": lit(None).cast("string")}
        names = {"audio": self.value("inputCol"), "path": self.value("pathCol")}
        for (key, name), kind in zip(names.items(), ("binary", "string"), strict=True):
            if name is not None:
                require_kind(dataset, "inputCol" if key == "audio" else "pathCol", name, kind)
                columns[key] = col(name)
        needed = {"recording": columns["path"] if names["audio"] is None else columns["audio"], **self.others(dataset)}
        if names["audio"] is None and names["path"] is None:
            raise ParameterError("inputCol", "set inputCol, the column with the bytes of files, or pathCol")
        columns |= {name: column for name, column in needed.items() if name != "recording"}
        present = lit(True)
        for column in needed.values():
            present = present & column.isNotNull()
        return when(present, struct(*(column.alias(name) for name, column in columns.items())))


def recording(row: Row) -> RecordingSpan | InMemory:
    """The recording of a row, on an executor."""
    path = row["path"] or "recording"
    if row["audio"] is not None:
        return InMemory(row["audio"], path)
    return RecordingSpan(local_path(path))


def local_path(path: str) -> Path:
    """`file:/a.wav`, as Spark writes paths, or `/a.wav`."""
    return Path(re.sub("^file:/+", "/", path))
