"""EnsembleTranscriber: transcripts by several models together."""

from collections.abc import Iterator

from ds2.recognition.ensemble import Ensemble
from ds2.spark.executor_work import Row, Settings
from ds2.spark.models import HasDecoder, HasModels, loaded
from ds2.spark.recording_stage import RecordingStage, recording
from ds2.spark.transcriber import TRANSCRIPT, transcript_row
from ds2.utils.errors import InputError


def transcribe_rows_together(settings: Settings, rows: Iterator[Row]) -> Iterator[Row | InputError]:
    """Runs on an executor."""
    for _, result in Ensemble(loaded(settings)).transcribe_files(map(recording, rows)):
        yield result if isinstance(result, InputError) else transcript_row(result)


class EnsembleTranscriber(RecordingStage, HasModels, HasDecoder):
    """As SpeechTranscriber, by several bundles whose log-probabilities are averaged; the first one decodes."""

    work = staticmethod(transcribe_rows_together)
    kind = TRANSCRIPT
