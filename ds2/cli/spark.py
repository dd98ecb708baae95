"""ds2 spark transcribe: many recordings on a cluster of Apache Spark."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from ds2.cli.exits import BAD_INPUT, SOME_FAILED
from ds2.cli.options import DEFAULT_SEARCH, Device, Model, Search
from ds2.utils.errors import ParameterError
from ds2.utils.extras import need
from ds2.utils.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from ds2.spark.bulk import Summary

Conf = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(metavar="KEY=VALUE", help="Set a key of Spark's configuration; repeatable."),
]


def spark_transcribe_command(
    source: Positional[str],
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])],
    master: str = "local[*]",
    format: Literal["parquet", "json", "delta"] = "parquet",
    model: Model = DEFAULT_MODEL,
    device: Device = "auto",
    conf: Conf = (),
    decoder: Search = DEFAULT_SEARCH,
) -> int:
    """Transcribe a folder of recordings on a cluster.

    Example: ds2 spark transcribe s3a://bucket/calls --master spark://host:7077 --output s3a://bucket/transcripts

    Args:
        source: Folder or pattern on any file system that Spark reads: a path, s3a://, gs://, hdfs://.
        output: New folder for the table, with columns path, transcript (text, words, duration) and error.
        master: Address of the cluster: spark://HOST:PORT, yarn, k8s://URL; or local[*], the cores of this machine.
        format: parquet, json, or delta, which needs the package of Delta Lake.
        decoder: Options of the search.
    """
    need("pyspark", "pyarrow")
    from ds2.spark.bulk import check_local, check_output, open_session, read_recordings, transcribe_table
    from ds2.spark.models import decoder_settings
    from ds2.spark.transcriber import SpeechTranscriber

    if wrong := next((each for each in conf if "=" not in each), None):
        raise ParameterError("conf", f"{wrong}: expected KEY=VALUE such as spark.executor.memory=2g")
    transcriber = SpeechTranscriber(
        inputCol="content",
        pathCol="path",
        outputCol="transcript",
        errorCol="error",
        model=model,
        device=device,
        **decoder_settings(decoder),
    )
    check_local(source, master)
    spark = open_session(master, dict(each.split("=", 1) for each in conf))
    try:
        check_output(spark, output)
        found = transcribe_table(read_recordings(spark, source), transcriber, output, format)
    finally:
        spark.stop()
    return _reported(found, output)


def _reported(found: "Summary", output: str) -> int:
    """Prints what became of the recordings; the exit code."""
    for error in found.errors:
        print(f"ds2: {error}", file=sys.stderr)
    done = found.recordings - found.failed
    print(f"{output}: {done} transcribed, {found.failed} failed, {found.seconds / 3600:.2f} h of audio")
    return 0 if not found.failed else SOME_FAILED if done else BAD_INPUT
