"""GroupEnsemble: the scores of several rows decide together, such as all recordings of a call or all copies of one."""

from pyspark.ml import Transformer
from pyspark.ml.functions import vector_to_array
from pyspark.ml.stat import Summarizer
from pyspark.sql import DataFrame
from pyspark.sql.functions import array_max, array_position, col, count, lit

from ds2.spark.stage import Setting, Stage, column_kind, require_kind, text
from ds2.utils.errors import ParameterError


class GroupEnsemble(Transformer, Stage):
    """A table of scores in, a row for each group out: the key, the mean scores, the class that is highest, the rows.

        GroupEnsemble(groupCol="call").transform(classifier.transform(features))

    Scores are vectors of one length, such as the probabilities of a classifier of Spark ML. Rows without scores or
    without a key, such as damaged recordings, do not count.
    """

    groupCol = Setting("column of the keys: rows of one key decide together", text)
    inputCol = Setting("column of scores, vectors", text, "probability")
    outputCol = Setting("column of mean scores to add, vectors", text, "score")
    predictionCol = Setting(
        "column to add: number of the class with the highest mean score, double", text, "prediction"
    )
    countCol = Setting("column to add: how many rows the group has", text, "rows")

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Groups the table.

        Raises:
            ParameterError: a column is missing or of the wrong type, or several have one name.
        """
        if (key := self.value("groupCol")) is None:
            raise ParameterError("groupCol", "set it, the column whose values name the groups")
        column_kind(dataset, "groupCol", key)
        require_kind(dataset, "inputCol", scores := self.value("inputCol"), "vector")
        added = [self.value(name) for name in ("outputCol", "predictionCol", "countCol")]
        if len({key, *added}) < 1 + len(added):
            raise ParameterError("outputCol", f"the columns of the result need different names, got {[key, *added]}")
        mean, prediction, rows = added
        there = dataset.where(col(scores).isNotNull() & col(key).isNotNull())
        groups = there.groupBy(col(key).alias(key)).agg(
            Summarizer.mean(col(scores)).alias(mean), count(lit(1)).alias(rows)
        )
        values = vector_to_array(col(mean))
        best = (array_position(values, array_max(values)) - 1).cast("double")
        return groups.select(key, mean, best.alias(prediction), rows)
