"""Every stage, fuzzed: see helpers/stage_fuzzing.py."""

import inspect
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.stage_fuzzing import StageFuzzing, TransformerFuzzing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ds2.spark.stage import Stage

pytestmark = pytest.mark.spark
DIGITS = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
TEXT = "one four seven one"  # of so762_000560026.opus


def test_every_stage_is_fuzzed() -> None:
    import ds2.spark
    from ds2.spark.stage import Stage

    stages = {name for name in ds2.spark.__all__ if issubclass(getattr(ds2.spark, name), Stage)}
    tests = [value for value in globals().values() if inspect.isclass(value) and issubclass(value, StageFuzzing)]
    assert stages == {test.name for test in tests if hasattr(test, "name")}
    assert stages == set(ds2.spark.__all__)


@pytest.fixture(scope="module")
def table(spark: "SparkSession") -> "DataFrame":
    """Rows of two partitions: digits, NULL, damage, NULL text."""
    good = bytearray((DIGITS / "so762_000560026.opus").read_bytes())
    rows = [
        (0, good, "good", TEXT),
        (1, None, "null", TEXT),
        (2, bytearray(b"?"), "bad", TEXT),
        (3, good, "mute", None),
    ]
    return spark.createDataFrame(rows, "id int, content binary, path string, text string").repartitionByRange(2, "id")


class TestSpeechTranscriber(TransformerFuzzing):
    name = "SpeechTranscriber"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import SpeechTranscriber

        return SpeechTranscriber(inputCol="content", pathCol="path", outputCol="heard", model="digits", beam=4)


class TestEnsembleTranscriber(TransformerFuzzing):
    name = "EnsembleTranscriber"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.bundle import locate
        from ds2.spark import EnsembleTranscriber

        return EnsembleTranscriber(inputCol="content", outputCol="heard", models=["digits", locate("digits")])


class TestSpeechFeaturizer(TransformerFuzzing):
    name = "SpeechFeaturizer"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import SpeechFeaturizer

        return SpeechFeaturizer(inputCol="content", outputCol="features", model="digits", layer="recurrent.0")


class TestForcedAligner(TransformerFuzzing):
    name = "ForcedAligner"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import ForcedAligner

        return ForcedAligner(inputCol="content", pathCol="path", outputCol="aligned", model="digits")


class TestCorpusBuilder(TransformerFuzzing):
    name = "CorpusBuilder"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import CorpusBuilder

        return CorpusBuilder(inputCol="content", pathCol="path", outputCol="segment", model="digits", shortest=0.3)


class TestHttpTranscriber(TransformerFuzzing):
    name = "HttpTranscriber"

    @pytest.fixture
    def stage(self, server: str) -> "Stage":
        from ds2.spark import HttpTranscriber

        return HttpTranscriber(inputCol="content", pathCol="path", outputCol="heard", url=server)


class TestSegmentFilterModel(TransformerFuzzing):
    name = "SegmentFilterModel"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import SegmentFilterModel

        six = {name: [1.0] * 6 for name in ("mean", "deviation", "weights")}
        return SegmentFilterModel(bias=0.25, threshold=30.0, **six)

    @pytest.fixture
    def table(self, spark: "SparkSession") -> "DataFrame":
        from pyspark.sql.types import StructType

        from ds2.spark.corpus import SEGMENT

        words = [("one", 0.0, 0.4, 0.9)]
        segments = [
            ("a", (bytearray(b"x"), "a.flac"), 0.0, 1.0, "one two", words, "one", cost, 20) for cost in (1.0, 99.0)
        ]
        kind = StructType().add("id", "integer").add("segment", SEGMENT)
        return spark.createDataFrame([(0, segments[0]), (1, None), (2, segments[1])], kind)

    def test_odds_are_those_of_the_classifier(self, stage: "Stage", table: "DataFrame") -> None:
        """Features by hand: cost, / 20 frames, / 7 characters, 20 / 7, 2 words, 7 characters; each less 1, and bias."""
        found = stage.transform(table).orderBy("id").collect()
        for row, cost in ((found[0], 1.0), (found[2], 99.0)):
            assert row.odds == pytest.approx(cost + cost / 20 + cost / 7 + 20 / 7 + 2 + 7 - 6 + 0.25)
        assert [row.kept for row in found] == [True, None, False]


class TestSegmentFilter(StageFuzzing):
    name = "SegmentFilter"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import SegmentFilter

        return SegmentFilter(checkedCol="truth", wer=0.1)


class TestWerEvaluator(StageFuzzing):
    name = "WerEvaluator"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import WerEvaluator

        return WerEvaluator(labelCol="truth", metricName="cer")


class TestTrainOnSpark(StageFuzzing):
    name = "TrainOnSpark"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import TrainOnSpark

        return TrainOnSpark(config="train.toml", output="run", processes=3)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a running `ds2 serve`."""
    pytest.importorskip("starlette", reason="needs the extra serve")
    command = [sys.executable, "-m", "ds2", "serve", "--model", "digits-streaming", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url = json.loads(next(line for line in process.stderr if '"event": "ready"' in line))["url"]
    yield url
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
