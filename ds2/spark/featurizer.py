"""SpeechFeaturizer: recordings in, the output of an inner layer out, for transfer learning with Spark ML."""

from collections.abc import Iterator

from pyspark.ml.functions import array_to_vector
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import when
from pyspark.sql.types import ArrayType, DataType, FloatType

from ds2.recognition.layer_outputs import LayerOutputs
from ds2.spark.executor_work import Row, Settings
from ds2.spark.models import HasModel, loaded
from ds2.spark.recording_stage import RecordingStage, recording
from ds2.spark.stage import Setting, text
from ds2.utils.errors import InputError, ParameterError

POOLINGS = ("mean", "max", "frames")


def featurize_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[object]:
    """Runs on an executor."""
    [recognizer], pooling = loaded(settings, "torch"), settings["pooling"]
    for _, _, result in LayerOutputs(recognizer, settings["layer"]).of_files(map(recording, rows)):
        if isinstance(result, InputError):
            yield result
        elif pooling == "frames":
            yield result.tolist()
        else:
            yield (result.mean(0) if pooling == "mean" else result.max(0)).tolist()


class SpeechFeaturizer(RecordingStage, HasModel):
    """The output of an inner layer: a vector for a recording, or an array for each of its frames.

    Cache the table before an estimator goes over it several times: Spark computes the features anew in each pass.
    """

    layer = Setting("frontend, convolutions.N, recurrent.N, lookahead, fully_connected or output; or convolutions or "
                    "recurrent, the last of them", text, "convolutions")  # fmt: skip
    pooling = Setting("mean or max over all frames, a vector; or frames, an array of arrays", text, "mean")
    work = staticmethod(featurize_rows)

    @property
    def kind(self) -> DataType:  # type: ignore[override]
        """The type of the output column."""
        vector = ArrayType(FloatType())
        return ArrayType(vector) if self.value("pooling") == "frames" else vector

    def finished(self, result: Column) -> Column:
        """The column as vectors of pyspark.ml, unless it holds frames."""
        if self.value("pooling") == "frames":
            return result
        return when(result.isNotNull(), array_to_vector(result))

    def _transform(self, dataset: DataFrame) -> DataFrame:
        if (pooling := self.value("pooling")) not in POOLINGS:
            raise ParameterError("pooling", f"{pooling}: choose one of {', '.join(POOLINGS)}")
        return super()._transform(dataset)
