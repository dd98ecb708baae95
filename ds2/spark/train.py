"""TrainOnSpark: `ds2 train` in processes that Spark places on the cluster."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.ml import Estimator
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import DataFrame
from pyspark.sql.functions import col

from ds2.data.manifest import write_manifest
from ds2.data.utterance import Utterance
from ds2.spark.recording_stage import local_path
from ds2.spark.stage import Setting, Stage, flag, require_kind, text, texts, whole
from ds2.spark.transcriber import SpeechTranscriber
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import make_folder


class TrainOnSpark(Estimator[SpeechTranscriber], Stage):
    """Trains on a table of utterances; returns a SpeechTranscriber with the best model of the training.

    It writes two manifests into `output` and runs `ds2 train` in `processes` tasks of a barrier stage (TorchDistributor
    of pyspark.ml), each a rank. All executors must see the recordings, the configuration and `output`, and need as many
    free cores as there are processes. The same call continues a training that was stopped.
    """

    config = Setting("TOML of the training, as a recipe's train.toml; its data.train and data.dev are replaced", text)
    output = Setting("folder of the run, which all executors see", text)
    settings = Setting("keys of the configuration, each SECTION.KEY=VALUE", texts)
    processes = Setting("ranks of the training", whole, 1)
    useGpu = Setting("give each rank a GPU", flag, False)
    pathCol = Setting("column with paths of recordings, string", text, "path")
    durationCol = Setting("column with durations in seconds, double", text, "duration")
    textCol = Setting("column with texts, string", text, "text")
    validationIndicatorCol = Setting("column that is true for utterances of the dev set, boolean", text, "dev")

    def _fit(self, dataset: DataFrame) -> SpeechTranscriber:
        """Trains.

        Raises:
            ParameterError: a setting is missing; a column is missing or of the wrong type.
            InputError: no utterance for the training set or the dev set, or the training failed.
        """
        for name in ("config", "output"):
            if self.value(name) is None:
                raise ParameterError(name, "must be set")
        output = Path(self.value("output")).absolute()
        train, dev = self._write_manifests(dataset, output)
        overrides = [f"data.train=['{train}']", f"data.dev='{dev}'", *(self.value("settings") or ())]
        options = [part for each in overrides for part in ["--set", each]]
        distributor = TorchDistributor(self.value("processes"), local_mode=False, use_gpu=self.value("useGpu"))
        distributor.run(
            run_rank, ["train", str(Path(self.value("config")).absolute()), "--output", str(output), *options]
        )
        best = output / "best.safetensors"
        return SpeechTranscriber(pathCol=self.value("pathCol"), outputCol="transcript", model=best)

    def _write_manifests(self, dataset: DataFrame, output: Path) -> tuple[Path, Path]:
        """train.jsonl and dev.jsonl."""
        kinds = {"pathCol": "string", "durationCol": "double", "textCol": "string", "validationIndicatorCol": "boolean"}
        names = {setting: self.value(setting) for setting in kinds}
        for setting, kind in kinds.items():
            require_kind(dataset, setting, names[setting], kind)
        make_folder(output)
        written = []
        is_dev = col(names["validationIndicatorCol"])
        for name, chosen in (("train", ~is_dev), ("dev", is_dev)):
            rows = dataset.where(chosen).select(*(col(names[setting]) for setting in kinds))
            utterances = [_utterance_of_columns(*row) for row in rows.toLocalIterator()]
            if not utterances:
                raise InputError(f"the table has no utterance for the {name} set")
            write_manifest(output / f"{name}.jsonl", utterances)
            written.append(output / f"{name}.jsonl")
        return written[0], written[1]


def _utterance_of_columns(path: str, duration: float, text: str, *_: Any) -> Utterance:
    return Utterance(local_path(path), duration, text)


def run_rank(arguments: list[str]) -> None:
    """Runs `ds2` in a rank, whose environment torchrun has set.

    Raises:
        CalledProcessError: it failed; what it printed is in the executor's log.
    """
    subprocess.run([sys.executable, "-m", "ds2", *arguments], check=True)
