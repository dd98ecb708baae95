"""What the stages are for: transfer learning, error rates, corpora, training."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from helpers.train_toml import small_toml

from ds2.audio.files import read_audio_bytes_array
from ds2.data.utterance import RecordingSpan
from ds2.recognition.layer_outputs import LayerOutputs
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
DIGITS = Path(__file__).parents[2] / "recipes" / "digits" / "audio"


@pytest.fixture
def sounds(spark: "SparkSession", tmp_path: Path) -> "DataFrame":
    """Ten recordings, half of them (label 1) with a loud tone."""
    rng, rows = np.random.default_rng(0), []
    for number in range(10):
        tone = 0.3 * np.sin(np.arange(4000) * (0.9 + 0.01 * number)) if number % 2 else 0.0
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, rng.normal(0, 0.05, 4000) + tone, 8000)
        rows.append((number, str(path), float(number % 2)))
    return spark.createDataFrame(rows, "id int, path string, label double").coalesce(2)


def test_features_are_those_of_the_layer(sounds: "DataFrame", tiny_bundle: Path) -> None:
    from ds2.spark import SpeechFeaturizer

    layer = LayerOutputs(Recognizer.load(tiny_bundle, "cpu", engine="torch"), "convolutions.0")
    stage = SpeechFeaturizer(pathCol="path", outputCol="features", model=tiny_bundle, layer="convolutions.0")
    for pooling in ("mean", "max", "frames"):
        for row in stage.copy().setPooling(pooling).transform(sounds).where("id < 2").collect():
            [(_, _, expected)] = layer.of_files([RecordingSpan(Path(row.path))])
            pooled = {"mean": expected.mean(0), "max": expected.max(0), "frames": expected}[pooling]
            found = row.features if pooling == "frames" else row.features.toArray()
            np.testing.assert_allclose(found, pooled, atol=1e-5)
    with pytest.raises(ParameterError, match="pooling: median: choose one of mean, max, frames"):
        stage.copy().setPooling("median").transform(sounds)


def test_the_default_model_has_the_default_layer(sounds: "DataFrame") -> None:
    from ds2.spark import SpeechFeaturizer

    found = SpeechFeaturizer(pathCol="path", outputCol="features").transform(sounds.where("id = 0")).first()
    assert found.features is not None
    assert found.features_error is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Spark leaves its pool of threads open
def test_transfer_learning_under_cross_validation(sounds: "DataFrame", tiny_bundle: Path) -> None:
    """The features are computed once, cached, and a pipeline with a logistic regression is chosen on them."""
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.evaluation import MulticlassClassificationEvaluator
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    from ds2.spark import SpeechFeaturizer

    featurizer = SpeechFeaturizer(pathCol="path", outputCol="features", model=tiny_bundle, layer="convolutions")
    features = featurizer.transform(sounds).cache()
    classifier = LogisticRegression(maxIter=10)
    grid = ParamGridBuilder().addGrid(classifier.regParam, [0.001, 0.1]).build()
    accuracy = MulticlassClassificationEvaluator(metricName="accuracy")
    search = CrossValidator(
        estimator=Pipeline(stages=[classifier]), estimatorParamMaps=grid, evaluator=accuracy, numFolds=2, seed=1
    )
    best = search.fit(features)
    assert max(best.avgMetrics) > 0.9
    whole = Pipeline(stages=[featurizer, *best.bestModel.stages]).fit(sounds).transform(sounds)
    assert accuracy.evaluate(whole) == 1.0
    features.unpersist()


def test_error_rates_by_hand(spark: "SparkSession") -> None:
    """One substitution in three words, two deletions of a damaged recording: 3 of 5; a row without text is left out."""
    from ds2.spark import WerEvaluator

    rows = [("One two, three", "one too three"), ("four five", None), (None, "six")]
    table = spark.createDataFrame(rows, "text string, transcript string")
    nested = table.selectExpr("text", "named_struct('text', transcript) AS transcript")
    for each in (table, nested):
        assert WerEvaluator().evaluate(each) == pytest.approx(3 / 5)
        assert WerEvaluator(metricName="cer").evaluate(each) == pytest.approx((1 + 9) / (13 + 9))
        assert WerEvaluator(normalize=False).evaluate(each) == pytest.approx(4 / 5)  # "One" and "two,", too
    assert not WerEvaluator().isLargerBetter()
    for settings, message in (
        ({"metricName": "bleu"}, "metricName: bleu: choose one of wer, cer"),
        ({"labelCol": "truth"}, "labelCol: the table has no column truth; it has text, transcript"),
    ):
        with pytest.raises(ParameterError, match=message):
            WerEvaluator(**settings).evaluate(table)
    with pytest.raises(InputError, match="no row has a reference in the column text"):
        WerEvaluator().evaluate(table.where("text IS NULL"))


def test_a_corpus_of_a_long_recording(spark: "SparkSession") -> None:
    """One row for each utterance with its own audio; their texts in order are the text of the recording."""
    from ds2.spark import CorpusBuilder

    rows = [json.loads(line) for line in (DIGITS / "utterances.jsonl").read_text().splitlines()]
    text = " ".join(row["text"] for row in rows if row["audio_filepath"] == "fsdd_theo_test.flac")
    data = bytearray((DIGITS / "fsdd_theo_test.flac").read_bytes())
    rows = [(0, data, "theo", text), (1, bytearray(b"?"), "bad", text), (2, data, "wrong", "qqq")]
    table = spark.createDataFrame(rows, "id int, content binary, path string, text string")
    builder = CorpusBuilder(
        inputCol="content", pathCol="path", outputCol="segment", model="digits", mean=3.0, shortest=0.5
    )
    found = builder.transform(table).collect()
    errors = {row.id: row.segment_error for row in found if row.segment is None}
    assert errors.keys() == {1, 2}
    assert all(error.startswith(f"{name}: ") for error, name in zip(errors.values(), ("bad", "wrong"), strict=True))
    segments = [row.segment for row in found if row.segment is not None]
    assert len(segments) > 3
    assert " ".join(segment.text for segment in segments) == text
    for segment in segments:
        samples, rate = read_audio_bytes_array(bytes(segment.audio.bytes))
        assert len(samples) / rate == pytest.approx(segment.duration, abs=0.01)
        assert segment.audio.path == f"{segment.id}.flac"
        assert [word.text for word in segment.words] == segment.text.split()
    assert len({segment.id for segment in segments}) == len(segments)
    with pytest.raises(ParameterError, match="mean: shortest 9"):
        builder.copy().setShortest(9.0).transform(table)


def test_a_filter_learns_which_texts_are_wrong(spark: "SparkSession") -> None:
    """Segments whose text is what the model hears cost little; those with another text cost much, and are left out."""
    from ds2.spark import SegmentFilter

    rng, rows = np.random.default_rng(0), []
    for number in range(60):
        wrong = number % 3 == 0
        cost = float(rng.normal(60.0 if wrong else 6.0, 2.0))
        rows.append((number, ("one two three", "nine nine" if wrong else "one two three", cost, 40, 2.0)))
    kind = "id int, segment struct<text:string,hypothesis:string,cost:double,frames:bigint,duration:double>"
    table = spark.createDataFrame(rows, kind)
    kept = SegmentFilter().fit(table).transform(table).orderBy("id").collect()
    assert [row.kept for row in kept] == [bool(number % 3) for number in range(60)]
    with pytest.raises(InputError, match="at least 20 are needed"):
        SegmentFilter().fit(table.limit(5))
    with pytest.raises(ParameterError, match="keep"):
        SegmentFilter(keep=7.0).fit(table)


def test_training_on_the_cluster(spark: "SparkSession", spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """Two ranks, placed by Spark, train a small model, which comes back as a stage."""
    pytest.importorskip("pandas", reason="Spark's TorchDistributor needs pandas")
    from ds2.spark import TrainOnSpark

    manifest = spoken_digits(12)
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    values = [
        (str(manifest.parent / row["audio_filepath"]), row["duration"], row["text"], number % 3 == 0)
        for number, row in enumerate(rows)
    ]
    table = spark.createDataFrame(values, "path string, duration double, text string, dev boolean")
    (tmp_path / "train.toml").write_text(small_toml(manifest))
    trainer = TrainOnSpark(
        config=str(tmp_path / "train.toml"), output=str(tmp_path / "run"), processes=2, settings=["epochs=1"]
    )
    found = trainer.fit(table).transform(table)
    assert (tmp_path / "run" / "best.safetensors").exists()
    assert len((tmp_path / "run" / "train.jsonl").read_text().splitlines()) == 8
    assert [row.transcript_error for row in found.collect()] == [None] * 12
    with pytest.raises(InputError, match="the table has no utterance for the dev set"):
        trainer.fit(table.where("NOT dev"))
    with pytest.raises(ParameterError, match="config: must be set"):
        TrainOnSpark(output="run").fit(table)
