"""WerEvaluator: the error rate of a column of transcripts."""

from collections.abc import Iterator

from pyspark.ml.evaluation import Evaluator
from pyspark.sql import DataFrame
from pyspark.sql.functions import coalesce, col, lit, struct
from pyspark.sql.functions import sum as total
from pyspark.sql.types import StructType

from ds2.metrics import ErrorCounts, character_errors, word_errors
from ds2.spark.executor_work import Row, Settings, computed
from ds2.spark.stage import Setting, Stage, column_kind, flag, require_kind, text
from ds2.text import normalize
from ds2.utils.errors import InputError, ParameterError

METRICS = {"wer": word_errors, "cer": character_errors}
COUNTS = StructType().add("errors", "long").add("length", "long")


def count_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[Row]:
    """Runs on an executor: the errors of each row, and the length of its reference."""
    count = METRICS[settings["metricName"]]
    clean = normalize if settings["normalize"] else str
    for row in rows:
        counts = count(clean(row["reference"]), clean(row["hypothesis"]))
        yield {"errors": counts.errors, "length": counts.reference_length}


class WerEvaluator(Evaluator, Stage):
    """All errors over all reference words, or characters, of a table; less is better.

    Rows without a reference do not count; a row without a transcript, such as a damaged recording, counts as silence.
    """

    predictionCol = Setting("column of transcripts: string, or the struct of SpeechTranscriber", text, "transcript")
    labelCol = Setting("column of correct texts, string", text, "text")
    metricName = Setting("what to count in: wer (words) or cer (characters)", text, "wer")
    normalize = Setting("normalise both texts first, as in training", flag, True)

    def isLargerBetter(self) -> bool:
        """Whether a larger value is better: it is not."""
        return False

    def _evaluate(self, dataset: DataFrame) -> float:
        """The error rate, 0.1 for ten per cent.

        Raises:
            ParameterError: a column is missing or of the wrong type; there is no such metric.
            InputError: no row has a reference.
        """
        if (metric := self.value("metricName")) not in METRICS:
            raise ParameterError("metricName", f"{metric}: choose one of {', '.join(METRICS)}")
        require_kind(dataset, "labelCol", label := self.value("labelCol"), "string")
        hypothesis = self.value("predictionCol")
        if column_kind(dataset, "predictionCol", hypothesis).startswith("struct<"):
            hypothesis = f"{hypothesis}.text"
        require_kind(dataset, "predictionCol", hypothesis, "string")
        texts = struct(col(label).alias("reference"), coalesce(col(hypothesis), lit("")).alias("hypothesis"))
        settings = {"metricName": metric, "normalize": self.value("normalize")}
        counted = dataset.where(col(label).isNotNull()).select(computed(count_rows, settings, texts, COUNTS).alias("c"))
        sums = counted.agg(total("c.result.errors").alias("errors"), total("c.result.length").alias("length")).first()
        if sums is None or sums.length is None:
            raise InputError(f"no row has a reference in the column {label}")
        return ErrorCounts(substitutions=sums.errors, reference_length=sums.length).rate
