"""Tests that every stage must pass, as SynapseML fuzzes its own: a class for each stage says what to test with.

`test_every_stage_is_fuzzed` finds stages that have none.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from pyspark.ml import Transformer
    from pyspark.sql import DataFrame, SparkSession

    from ds2.spark.stage import Stage

OTHERS: dict[str, Any] = {  # another value for a setting, by its name; all others take texts
    "beam": 7,
    "skip": True,
    "useGpu": True,
    "normalize": False,
    "hot": ["a", "b=2"],
    "settings": ["epochs=1"],
    "models": ["digits"],
    "most": 30,
    "processes": 2,
    "concurrency": 2,
    "retries": 0,
    "separate": True,
}
NUMBERS = ("lmWeight", "wordBonus", "shortest", "longest", "wer", "keep", "bias", "threshold", "timeout", "minibatch")
LISTS = ("deviation", "weights", "speeds", "noises", "rooms")


def another_value(stage: "Stage", name: str) -> Any:
    if name == "mean":  # seconds in CorpusBuilder, a list in SegmentFilterModel
        return 5.0 if stage.hasParam("longest") else [0.5] * 6
    if name in LISTS:
        return [0.5] * 6
    return OTHERS.get(name, 0.5 if name in NUMBERS else "another")


class StageFuzzing:
    """What holds for every stage: its settings, and that it is the same after it was saved and loaded."""

    name: ClassVar[str]  # of the class in ds2.spark

    @pytest.fixture
    def stage(self) -> "Stage":
        raise NotImplementedError

    def test_every_setting_has_a_getter_a_setter_and_a_meaning(self, stage: "Stage") -> None:
        for param in stage.params:
            title = param.name[0].upper() + param.name[1:]
            value = another_value(stage, param.name)
            other = stage.copy()
            assert getattr(other, f"set{title}")(value) is other
            assert getattr(other, f"get{title}")() == value
            assert getattr(stage, f"get{title}")() != value, "a copy is a copy"
            assert len(param.doc) > 10
            with pytest.raises(TypeError, match=param.name):
                getattr(other, f"set{title}")(object())

    def test_a_loaded_stage_has_the_settings_and_the_files_of_the_saved_one(
        self, stage: "Stage", spark: "SparkSession", tmp_path: Path
    ) -> None:
        stage.write().overwrite().save(str(tmp_path / "stage"))
        files = {name: [path.read_bytes() for path in stage.located(name)] for name in stage.file_settings()}
        loaded = type(stage).load(str(tmp_path / "stage"))
        assert type(loaded) is type(stage)
        assert loaded.uid == stage.uid
        assert {name: [path.read_bytes() for path in loaded.located(name)] for name in files} == files
        others = [param.name for param in stage.params if param.name not in files]
        assert [loaded.value(name) for name in others] == [stage.value(name) for name in others]
        for path in (path for name in files for path in loaded.located(name)):
            assert path not in [path for name in files for path in stage.located(name)], "its own copy"


class TransformerFuzzing(StageFuzzing):
    """What holds for every transformer on a table with good, missing and damaged rows."""

    def test_it_adds_columns_and_changes_no_other(self, stage: "Transformer", table: "DataFrame") -> None:
        before = rows(table)
        result = stage.transform(table)
        assert result.columns[: len(table.columns)] == table.columns
        assert [row[: len(table.columns)] for row in rows(result)] == before
        assert any(any(value is not None for value in row[len(table.columns) :]) for row in rows(result))

    def test_in_a_pipeline_that_was_saved_it_gives_the_same(
        self, stage: "Transformer", table: "DataFrame", tmp_path: Path
    ) -> None:
        from pyspark.ml import Pipeline, PipelineModel

        Pipeline(stages=[stage]).fit(table).write().overwrite().save(str(tmp_path / "pipeline"))
        loaded = PipelineModel.load(str(tmp_path / "pipeline"))
        assert rows(loaded.transform(table)) == rows(stage.transform(table))

    def test_empty_and_odd_tables(self, stage: "Transformer", table: "DataFrame") -> None:
        from pyspark.sql.functions import lit

        assert rows(stage.transform(table.limit(0))) == []
        odd = table.withColumns({"odd name": lit(1), "ünïcode": lit("x"), "struct": lit([1, 2])})
        assert stage.transform(odd.unionByName(odd)).count() == 2 * stage.transform(odd).count()


def rows(table: "DataFrame") -> list[tuple[Any, ...]]:
    """All rows in order of their ids, bytes as they are."""
    return sorted((tuple(row) for row in table.collect()), key=lambda row: (row[0], str(row)))
