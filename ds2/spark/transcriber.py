"""SpeechTranscriber: recordings in, transcripts out."""

from collections.abc import Iterator
from functools import partial

from pyspark.sql.types import ArrayType, StructType

from ds2.recognition.channels import transcribe_channels
from ds2.recognition.transcript import Transcript
from ds2.spark.executor_work import Row, Settings
from ds2.spark.models import HasDecoder, HasModel, loaded
from ds2.spark.recording_stage import RecordingStage, recording
from ds2.spark.stage import Setting, flag
from ds2.utils.errors import InputError

WORD = StructType().add("text", "string").add("start", "double").add("end", "double").add("confidence", "double")
SPOKEN = StructType([*WORD.fields]).add("speaker", "integer")
TRANSCRIPT = StructType().add("text", "string").add("words", ArrayType(SPOKEN)).add("duration", "double")


def transcribe_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[Row | InputError]:
    """Runs on an executor, in minibatches of recordings of like length."""
    [recognizer] = loaded(settings)
    transcribe = partial(transcribe_channels, recognizer) if settings["separate"] else recognizer.transcribe_files
    for _, result in transcribe(map(recording, rows)):
        yield result if isinstance(result, InputError) else transcript_row(result)


def transcript_row(transcript: Transcript) -> Row:
    """A transcript as a value of TRANSCRIPT; the speaker of a word is its channel, from 1 on."""
    words = [
        {name: getattr(word, name) for name in WORD.names} | {"speaker": channel or None}
        for channel, segment in transcript.channel_segments
        for word in segment.words
    ]
    return {"text": transcript.text, "words": words, "duration": transcript.duration}


class SpeechTranscriber(RecordingStage, HasModel, HasDecoder):
    """Transcribes recordings of any length, as `ds2 transcribe` does.

        transcriber = SpeechTranscriber(inputCol="content", outputCol="transcript", model="english")
        transcriber.transform(spark.read.format("binaryFile").load("s3a://bucket/calls"))

    A result has text, words (text, start and end in seconds, confidence, speaker) and duration in seconds. A Python
    worker reads up to GROUP_SECONDS of audio ahead, of one partition, sorts it by length, and runs it in minibatches;
    that bounds its memory.
    """

    separate = Setting("transcribe each channel by itself, as in telephone calls: a speaker on each", flag, False)
    work = staticmethod(transcribe_rows)
    kind = TRANSCRIPT
