"""Stages for Apache Spark's pipelines: bulk transcription, features and corpora on a cluster."""

from ds2.spark.transcriber import SpeechTranscriber

__all__ = ["SpeechTranscriber"]
