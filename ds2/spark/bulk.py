"""A whole folder of recordings to a table of transcripts: what `ds2 spark transcribe` does."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from ds2.audio.files import SUFFIXES
from ds2.spark.transcriber import SpeechTranscriber
from ds2.utils.errors import InputError

SETTINGS = {  # of a session; each can be overridden
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),  # recordings on their way to a Python worker
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.files.maxPartitionBytes": "64m",  # a task: what is done again when an executor is lost
    "spark.sql.files.openCostInBytes": "512k",  # some hundred short recordings in a task
}
SHOWN = 10  # errors


@dataclass(frozen=True)
class Summary:
    """What became of the recordings; `errors` are the first SHOWN."""

    recordings: int
    failed: int
    seconds: float
    errors: list[str]


def check_local(source: str, master: str) -> None:
    """Saves the start of Spark where a path without a scheme and without a pattern is to be read on this machine.

    Raises:
        InputError: there is nothing of that name.
    """
    if master.startswith("local") and not re.search(r"^\w+:|[*?\[{]", source) and not Path(source).exists():
        raise InputError(f"{source}: no such file or folder")


def open_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """A session on a cluster, with SETTINGS; executors use this Python, unless PYSPARK_PYTHON names another.

    Raises:
        InputError: the cluster cannot be reached, or a key has an impossible value.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        builder = SparkSession.builder.master(master).appName("ds2 spark transcribe")
        return builder.config(map={**SETTINGS, **conf}).getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        raise InputError(f"{master}: {one_line(error)}") from error


def read_recordings(spark: SparkSession, source: str) -> DataFrame:
    """path and content of all audio files below a folder, or that a pattern matches; empty files have no content.

    Raises:
        InputError: there is none.
    """
    suffixes = ",".join(form.removeprefix(".") for suffix in SUFFIXES for form in (suffix, suffix.upper()))
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    try:
        table = reader.option("pathGlobFilter", f"*.{{{suffixes}}}").load(source).select("path", "content")
    except (AnalysisException, Py4JJavaError) as error:
        raise InputError(f"{source}: {one_line(error)}") from error
    if not (names := table.inputFiles()):
        raise InputError(f"{source}: no audio file in this folder ({', '.join(SUFFIXES)})")
    if empty := _left_out(table, names):
        table = table.unionByName(spark.createDataFrame([(path, b"") for path in empty], table.schema))
    return table


def _left_out(table: DataFrame, names: Sequence[str]) -> list[str]:
    """The paths of the files of these names, as URIs, that have no row: Spark lists empty files but does not read them.

    No content is read for this.
    """
    paths = table.select("path")
    if paths.distinct().count() == len(names):
        return []
    listed = {re.sub("^file:/+", "file:/", unquote(name)) for name in names}
    return sorted(listed.difference(row.path for row in paths.toLocalIterator()))


def check_output(spark: SparkSession, output: str) -> None:
    """Saves the work where its table could not be written.

    Raises:
        InputError: the output is there already, or its file system cannot be reached.
    """
    jvm, configuration = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    assert jvm is not None
    try:
        path = jvm.org.apache.hadoop.fs.Path(output)
        there = path.getFileSystem(configuration).exists(path)
    except Py4JJavaError as error:
        raise InputError(f"{output}: {one_line(error)}") from error
    if there:
        raise InputError(f"{output}: exists already; name a new folder, or remove this one")


def transcribe_table(table: DataFrame, transcriber: SpeechTranscriber, output: str, format: str) -> Summary:
    """Writes path, transcript and error of every recording to `output`; what is there is not touched.

    Raises:
        InputError: the output is there already; the job failed.
    """
    columns = ["path", transcriber.value("outputCol"), transcriber.value("errorCol")]
    try:
        transcriber.transform(table).select(*columns).write.format(format).save(output)
        written = table.sparkSession.read.format(format).load(output)
        facts = written.selectExpr(
            "count(*) AS recordings", "count(error) AS failed", "sum(transcript.duration) AS seconds"
        ).first()
        assert facts is not None
        errors = [row.error for row in written.where("error IS NOT NULL").select("error").limit(SHOWN).collect()]
    except (PySparkException, Py4JJavaError) as error:
        raise InputError(f"{output}: {one_line(error)}") from error
    return Summary(facts.recordings, facts.failed, facts.seconds or 0.0, errors)


def one_line(error: Exception) -> str:
    """The cause of a failed job: the last line of the Python traceback in it, or the first line of Spark's message."""
    lines = str(error).splitlines()
    causes = [match[1] for line in lines if (match := re.match(r"(?:\w+\.)*(\w*(?:Error|Exception): .*)", line))]
    return (causes[0] if causes else next(filter(None, lines), type(error).__name__)).strip()[:300]
