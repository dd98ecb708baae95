"""AudioAugmenter: recordings in, the same and changed copies of them out, to train on or to average scores over."""

import hashlib
from collections.abc import Iterator

import torch
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import explode_outer
from pyspark.sql.types import ArrayType, StructType

from ds2.audio.augment import add_noise, coloured_noise, reverberate, seeded_generator
from ds2.audio.files import InMemory, read_audio_array
from ds2.audio.flac import flac_bytes
from ds2.audio.speed import change_speed
from ds2.spark.executor_work import Row, Settings
from ds2.spark.recording_stage import RecordingStage, recording
from ds2.spark.stage import Setting, numbers
from ds2.utils.errors import InputError, ParameterError

COPY = StructType().add("copy", "string").add("content", "binary")
PINK = 1  # slope of the noise's power over frequency


def copy_rows(settings: Settings, rows: Iterator[Row]) -> Iterator[list[Row] | InputError]:
    """Runs on an executor: the copies of each recording."""
    for row in rows:
        try:
            yield _copies(row, settings)
        except InputError as error:
            yield error


def _copies(row: Row, settings: Settings) -> list[Row]:
    """The random numbers of a copy depend on the sound and on the kind of the copy alone."""
    source = recording(row)
    array, rate = read_audio_array(source if isinstance(source, InMemory) else source.path)
    samples = torch.from_numpy(array)
    seed = int.from_bytes(hashlib.sha256(array.tobytes()).digest()[:7], "big")
    found = {"original": samples}
    for factor in settings["speeds"]:
        found[f"speed {factor:g}"] = change_speed(samples, rate, factor)
    for number, snr in enumerate(settings["noises"]):
        noise = coloured_noise(len(samples), PINK, seeded_generator(seed, 0, number))
        found[f"noise {snr:g}"] = add_noise(samples, noise, snr)
    for number, seconds in enumerate(settings["rooms"]):
        found[f"room {seconds:g}"] = reverberate(samples, seconds * rate, seeded_generator(seed, 1, number))
    return [{"copy": name, "content": flac_bytes(copy.numpy(), rate)} for name, copy in found.items()]


class AudioAugmenter(RecordingStage):
    """Recordings in, a row for each copy out, the original among them, as ImageSetAugmenter does with pictures.

        augmenter = AudioAugmenter(inputCol="content", outputCol="changed", speeds=[0.9, 1.1], noises=[15.0])
        augmenter.transform(labelled).select("label", "changed.copy", "changed.content")

    A result has copy ("original", "speed 0.9", "noise 15", "room 0.4") and content, FLAC of one channel in bytes. All
    other columns are repeated. With GroupEnsemble the copies of a recording decide together. A recording that cannot be
    read gives one row, with its error.
    """

    speeds = Setting("factors, each a copy that is played so much faster and higher", numbers, [0.9, 1.1])
    noises = Setting("signal-to-noise ratios in dB, each a copy with synthesised pink noise", numbers, [])
    rooms = Setting("seconds until reverberation has fallen by 60 dB, each a copy in a synthesised room", numbers, [])
    work = staticmethod(copy_rows)
    kind = ArrayType(COPY)

    def finished(self, result: Column) -> Column:
        """A row for each copy."""
        return explode_outer(result)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Adds the columns.

        Raises:
            ParameterError: a factor or a duration out of range, or as in the other stages.
        """
        for name, low, high in (("speeds", 0.1, 10.0), ("noises", -100.0, 100.0), ("rooms", 0.01, 10.0)):
            if not all(low <= value <= high for value in self.value(name)):
                raise ParameterError(name, f"must be from {low:g} to {high:g}, got {self.value(name)}")
        return super()._transform(dataset)
