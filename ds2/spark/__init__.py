"""Stages for Apache Spark's pipelines: bulk transcription, features and corpora on a cluster."""

from ds2.spark.aligner import ForcedAligner
from ds2.spark.augmenter import AudioAugmenter
from ds2.spark.corpus import CorpusBuilder
from ds2.spark.ensemble import EnsembleTranscriber
from ds2.spark.evaluator import WerEvaluator
from ds2.spark.featurizer import SpeechFeaturizer
from ds2.spark.filter import SegmentFilter, SegmentFilterModel
from ds2.spark.group_ensemble import GroupEnsemble
from ds2.spark.http import HttpTranscriber
from ds2.spark.train import TrainOnSpark
from ds2.spark.transcriber import SpeechTranscriber

__all__ = [
    "AudioAugmenter",
    "CorpusBuilder",
    "EnsembleTranscriber",
    "ForcedAligner",
    "GroupEnsemble",
    "HttpTranscriber",
    "SegmentFilter",
    "SegmentFilterModel",
    "SpeechFeaturizer",
    "SpeechTranscriber",
    "TrainOnSpark",
    "WerEvaluator",
]
