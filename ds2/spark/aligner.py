"""ForcedAligner: recordings and their texts in, the times of all words out."""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col

from ds2.audio.files import InMemory
from ds2.recognition.align import align
from ds2.spark.executor_work import Row, Settings
from ds2.spark.models import HasModel, loaded
from ds2.spark.recording_stage import RecordingStage, recording
from ds2.spark.stage import Setting, flag, require_kind, text
from ds2.spark.transcriber import TRANSCRIPT, transcript_row
from ds2.utils.errors import InputError


def align_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[Row | InputError]:
    """Runs on an executor, recording by recording."""
    [recognizer] = loaded(settings)
    for row in rows:
        source = recording(row)
        try:
            audio = source if isinstance(source, InMemory) else source.path
            yield transcript_row(
                align(recognizer, audio, row["text"], settings["skip"], settings["language"]).transcript
            )
        except InputError as error:
            yield error


class HasText(RecordingStage):
    """A stage that needs the text of each recording."""

    textCol = Setting("column with the text of the recording, string", text, "text")
    skip = Setting("allow speech that is not transcribed before, after and between the lines of the text", flag, False)
    language = Setting("en or zh reads the numbers in the text as words; by default that of the model", text)

    def others(self, dataset: DataFrame) -> dict[str, Column]:
        """The column with the texts."""
        name = self.value("textCol")
        require_kind(dataset, "textCol", name, "string")
        return {"text": col(name)}


class ForcedAligner(HasText, HasModel):
    """Finds when each word of a known text is said, as `ds2 align` does; the result is that of SpeechTranscriber."""

    work = staticmethod(align_rows)
    kind = TRANSCRIPT
