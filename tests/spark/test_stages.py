"""Every stage, fuzzed: see helpers/stage_fuzzing.py."""

import inspect
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from helpers.stage_fuzzing import StageFuzzing, TransformerFuzzing

from ds2.utils.errors import ParameterError

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

    def test_the_text_does_not_depend_on_the_minibatch(self, stage: "Stage", table: "DataFrame") -> None:
        alone = stage.copy().setMinibatch(0.1).transform(table.unionByName(table))
        assert {row.heard.text for row in alone.where("id = 0").collect()} == {TEXT}
        with pytest.raises(ParameterError, match=r"minibatch: must be above 0 seconds, got 0\.0"):
            stage.copy().setMinibatch(0.0).transform(table)


class TestEnsembleTranscriber(TransformerFuzzing):
    name = "EnsembleTranscriber"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import EnsembleTranscriber
        from ds2.utils.model_names import locate

        return EnsembleTranscriber(inputCol="content", outputCol="heard", models=["digits", locate("digits")])


class TestSpeechFeaturizer(TransformerFuzzing):
    name = "SpeechFeaturizer"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import SpeechFeaturizer

        return SpeechFeaturizer(inputCol="content", outputCol="features", model="digits", layer="recurrent.0")


class TestAudioAugmenter(TransformerFuzzing):
    name = "AudioAugmenter"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import AudioAugmenter

        return AudioAugmenter(inputCol="content", pathCol="path", outputCol="changed", speeds=[])

    def test_a_row_for_each_copy(self, stage: "Stage", table: "DataFrame") -> None:
        """Half as long at twice the speed, noise at its ratio, a room, the same each time; one row for what is bad."""
        stage = stage.copy().setSpeeds([2.0]).setNoises([10.0]).setRooms([0.3])
        found = [stage.transform(table).where("id < 3").collect() for _ in range(2)]
        assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
        copies = {row.changed.copy: row.changed.content for row in found[0] if row.id == 0}
        assert set(copies) == {"original", "speed 2", "noise 10", "room 0.3"}
        sound = {name: soundfile.read(io.BytesIO(content))[0] for name, content in copies.items()}
        original = sound["original"]
        assert len(sound["speed 2"]) == pytest.approx(len(original) / 2, abs=2)
        noise = sound["noise 10"] - original
        assert 10 * np.log10((original**2).mean() / (noise**2).mean()) == pytest.approx(10.0, abs=0.1)
        assert not np.allclose(sound["room 0.3"], original, atol=0.01)
        assert [(row.changed, row.changed_error) for row in found[0] if row.id == 1] == [(None, None)]
        [bad] = [row for row in found[0] if row.id == 2]
        assert bad.changed is None
        assert bad.changed_error.startswith("bad: ")

    def test_a_recording_may_be_a_path(self, spark: "SparkSession") -> None:
        from ds2.spark import AudioAugmenter

        table = spark.createDataFrame([(str(DIGITS / "so762_000560026.opus"),)], "path string")
        found = AudioAugmenter(pathCol="path", outputCol="changed").transform(table).collect()
        assert [row.changed.copy for row in found] == ["original", "speed 0.9", "speed 1.1"]

    def test_what_cannot_be_is_refused(self, stage: "Stage", table: "DataFrame") -> None:
        with pytest.raises(ParameterError, match=r"speeds: must be from 0.1 to 10, got \[0.0\]"):
            stage.copy().setSpeeds([0.0]).transform(table)


class TestGroupEnsemble(StageFuzzing):
    name = "GroupEnsemble"

    @pytest.fixture
    def stage(self) -> "Stage":
        from ds2.spark import GroupEnsemble

        return GroupEnsemble(groupCol="call")

    def test_groups_decide_by_their_mean_scores(self, stage: "Stage", spark: "SparkSession") -> None:
        """Two against one in numbers, one against two in scores; NULL scores and NULL keys do not count."""
        from pyspark.ml.linalg import Vectors, VectorUDT
        from pyspark.sql.types import StructType

        rows = [("a", [0.6, 0.4]), ("a", [0.6, 0.4]), ("a", [0.0, 1.0]), ("b", [1.0, 0.0]), ("b", None), ("c", None)]
        rows = [(key, None if values is None else Vectors.dense(values)) for key, values in [*rows, (None, [1.0, 0.0])]]
        kind = StructType().add("call", "string").add("probability", VectorUDT())
        table = spark.createDataFrame(rows, kind)
        a, b = stage.transform(table).orderBy("call").collect()
        assert (a.call, a.prediction, a.rows, b.call, b.prediction, b.rows) == ("a", 1.0, 3, "b", 0.0, 1)
        assert a.score.toArray() == pytest.approx([0.4, 0.6])
        assert b.score.toArray() == pytest.approx([1.0, 0.0])

    def test_what_cannot_be_is_refused(self, stage: "Stage", table: "DataFrame") -> None:
        for changed, complaint in (
            (stage.copy(), "no column call"),
            (stage.copy().setGroupCol("id"), "no column probability"),
            (stage.copy().setGroupCol("id").setInputCol("text"), "must be vector, it is string"),
        ):
            with pytest.raises(ParameterError, match=complaint):
                changed.transform(table)


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
