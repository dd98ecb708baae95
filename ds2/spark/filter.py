"""SegmentFilter: learns which utterances have wrong texts, as `ds2 filter` does, and marks them."""

from collections.abc import Iterator
from pathlib import Path

from pyspark.ml import Estimator, Model
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, rand, struct, when
from pyspark.sql.types import DoubleType

from ds2.curation.classifier import Classifier
from ds2.curation.filter import FilterConfig, filter_segments
from ds2.curation.score import features
from ds2.data.utterance import Utterance
from ds2.spark.executor_work import Row, Settings, computed
from ds2.spark.stage import Setting, Stage, column_kind, number, numbers, require_kind, text, whole
from ds2.utils.errors import ParameterError

NEEDED = ("text", "hypothesis", "cost", "frames", "duration")  # of a segment
COEFFICIENTS = ("mean", "deviation", "weights")  # of Classifier: a number for each of the six features


def odds_of_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[float]:
    """Runs on an executor: log odds that each text is wrong."""
    import torch

    mean, deviation, weights = (tuple(settings[name]) for name in COEFFICIENTS)
    classifier = Classifier(mean, deviation, weights, settings["bias"])
    for row in rows:
        values = torch.tensor([features(_utterance_of_row(row))], dtype=torch.float64)
        yield float(classifier(values)[0])


def _utterance_of_row(row: Row) -> Utterance:
    extra = {name: row[name] for name in ("hypothesis", "cost", "frames")} | {"id": str(row.get("id"))}
    return Utterance(Path(extra["id"]), row["duration"], row["text"], extra=extra)


class SegmentFilterModel(Model, Stage):
    """Adds the log odds that the text of a segment is wrong, and whether to keep it; NULL where the segment is NULL."""

    inputCol = Setting("column of segments, of CorpusBuilder", text, "segment")
    outputCol = Setting("column of log odds to add", text, "odds")
    keptCol = Setting("column to add: whether the segment is kept", text, "kept")
    mean = Setting("of the six features", numbers)
    deviation = Setting("of the six features", numbers)
    weights = Setting("of the six features", numbers)
    bias = Setting("of the classifier, log odds", number)
    threshold = Setting("log odds up to which segments are kept", number)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        check_segments(dataset, source := self.value("inputCol"))
        settings = {name: self.value(name) for name in (*COEFFICIENTS, "bias")}
        odds, segment = self.value("outputCol"), col(source)
        facts = when(segment.isNotNull(), struct(*(segment[name].alias(name) for name in NEEDED)))
        table = dataset.withColumn(odds, computed(odds_of_rows, settings, facts, DoubleType())["result"])
        return table.withColumn(self.value("keptCol"), col(odds) <= self.value("threshold"))


class SegmentFilter(Estimator[SegmentFilterModel], Stage):
    """Learns from segments whose correct text is known or, without these, from the model's own transcripts."""

    inputCol = Setting("column of segments, of CorpusBuilder", text, "segment")
    checkedCol = Setting("column of correct texts, string, NULL where unknown; by default the hypotheses", text)
    wer = Setting("highest word error rate of the texts that are kept, where correct texts are known", number, 0.03)
    keep = Setting("fraction of the segments to keep, instead of wer", number)
    most = Setting("segments to learn from, at most; a random sample", whole, 20_000)

    def _fit(self, dataset: DataFrame) -> SegmentFilterModel:
        """Collects a sample of the segments, without their audio, and learns from it.

        Raises:
            ParameterError: a column is missing or of the wrong type, or an impossible value.
            InputError: too few segments to learn from.
        """
        check_segments(dataset, source := self.value("inputCol"))
        config = self._config()
        checked = self.value("checkedCol")
        columns = [col(f"{source}.{name}") for name in NEEDED]
        if checked is not None:
            require_kind(dataset, "checkedCol", checked, "string")
            columns.append(col(checked).alias("checked"))
        sample = dataset.where(col(source).isNotNull()).select(*columns).orderBy(rand(seed=1)).limit(self.value("most"))
        rows = [{**row.asDict(), "id": number} for number, row in enumerate(sample.collect())]
        truths = {str(row["id"]): row["checked"] for row in rows if row.get("checked") is not None}
        _, report = filter_segments(list(map(_utterance_of_row, rows)), None if checked is None else truths, config)
        found = {name: list(getattr(report.classifier, name)) for name in COEFFICIENTS}
        return SegmentFilterModel(inputCol=source, bias=report.classifier.bias, threshold=report.threshold, **found)

    def _config(self) -> FilterConfig:
        try:
            return FilterConfig(wer=self.value("wer"), keep=self.value("keep"))
        except ValueError as error:
            raise ParameterError("keep" if "keep" in str(error) else "wer", str(error)) from error


def check_segments(dataset: DataFrame, name: str) -> None:
    """Checks that a column holds segments.

    Raises:
        ParameterError: it is missing, or lacks a field.
    """
    column_kind(dataset, "inputCol", name)
    for field in NEEDED:
        column_kind(dataset, "inputCol", f"{name}.{field}")
