"""CorpusBuilder and SegmentFilter: from long recordings and their texts to the utterances of a training set."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import explode_outer
from pyspark.sql.types import ArrayType, StructType

from ds2.audio.files import InMemory
from ds2.curation.score import score
from ds2.curation.segment import SegmentConfig, segment
from ds2.data.encode import encoded
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.spark.aligner import HasText
from ds2.spark.executor_work import Row, Settings
from ds2.spark.models import HasModel, loaded
from ds2.spark.recording_stage import recording
from ds2.spark.stage import Setting, number
from ds2.spark.transcriber import WORD
from ds2.utils.errors import InputError, ParameterError

AUDIO = StructType().add("bytes", "binary").add("path", "string")  # as in the tables of Hugging Face
SEGMENT = (
    StructType()
    .add("id", "string")
    .add("audio", AUDIO)
    .add("start", "double")
    .add("duration", "double")
    .add("text", "string")
    .add("words", ArrayType(WORD))
    .add("hypothesis", "string")
    .add("cost", "double")
    .add("frames", "long")
)


def cut_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[list[Row] | InputError]:
    """Runs on an executor: the utterances of each recording."""
    [recognizer] = loaded(settings)
    config = segment_config(settings)
    for row in rows:
        source = recording(row)
        if not isinstance(source, InMemory):
            yield _cut_recording(recognizer, source.path, str(source.path), row["text"], config, settings)
            continue
        with tempfile.NamedTemporaryFile(prefix="ds2-") as file:  # read many times, by windows and segments
            file.write(source.data)
            file.flush()
            yield _cut_recording(recognizer, Path(file.name), source.name, row["text"], config, settings)


def _cut_recording(
    recognizer: Recognizer, path: Path, name: str, text: str, config: SegmentConfig, settings: Settings
) -> list[Row] | InputError:
    """The scored utterances of a recording, which is called `name` in ids and errors."""
    try:
        found = segment(recognizer, path, text, config, settings["skip"], settings["language"]).utterances
        scored = score(recognizer, [replace(utterance, extra={**utterance.extra, "id": ""}) for utterance in found])
        return [_segment_row(utterance, name) for utterance in scored if isinstance(utterance, Utterance)]
    except InputError as error:
        return InputError(str(error).replace(str(path), name))


def _segment_row(utterance: Utterance, name: str) -> Row:
    """A scored utterance as a value of SEGMENT, its audio as FLAC."""
    start, extra = utterance.offset or 0.0, utterance.extra
    span = f"{round(start * 1000):08}-{round((start + utterance.duration) * 1000):08}"
    data, suffix = encoded(utterance, "flac")
    identity = f"{name}/{span}"
    return {
        "id": identity,
        "audio": {"bytes": data, "path": identity + suffix},
        "start": start,
        "duration": utterance.duration,
        "text": utterance.text,
        "words": [dict(zip(WORD.names, word, strict=True)) for word in extra["words"]],
        "hypothesis": extra["hypothesis"],
        "cost": extra["cost"],
        "frames": extra["frames"],
    }


def segment_config(settings: Settings) -> SegmentConfig:
    """The lengths of segments.

    Raises:
        ParameterError: they do not increase.
    """
    try:
        return SegmentConfig(mean=settings["mean"], shortest=settings["shortest"], longest=settings["longest"])
    except ValueError as error:
        raise ParameterError("mean", str(error)) from error


class CorpusBuilder(HasText, HasModel):
    """Recordings of seconds or hours and their texts in, a row for each utterance out, as `ds2 make-corpus` cuts them.

    A result has id, audio (FLAC in bytes, and a path), start and duration in seconds, text, words, and what
    SegmentFilter needs: hypothesis, cost (nats) and frames. A recording that cannot be used gives one row, with its
    error. `table.select("segment.*")` is a table that `ds2 data convert` makes shards of.
    """

    mean = Setting("average length of an utterance in seconds", number, SegmentConfig.mean)
    shortest = Setting("least length of an utterance in seconds", number, SegmentConfig.shortest)
    longest = Setting("greatest length of an utterance in seconds", number, SegmentConfig.longest)
    work = staticmethod(cut_rows)
    kind = ArrayType(SEGMENT)

    def finished(self, result: Column) -> Column:
        """A row for each utterance in place of a row with their list."""
        return explode_outer(result)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        segment_config({name: self.value(name) for name in ("mean", "shortest", "longest")})
        return super()._transform(dataset)
