"""The folder of a run: its lock, its log of epochs, what was skipped, and the best model.

FOLDER/
  best.safetensors     the model of the epoch with the lowest dev WER, or PER where it learns phones
  checkpoint.pt        what a resumed run continues from
  metrics.jsonl, tensorboard/, curves.png
  start.json           the figures of the model that training began from, on the dev set
  skipped.txt          utterances that could not be trained on in the last epoch, and why
  skipped_updates/     minibatches whose gradient was bad
  observed/            what `ds2 report` shows of the network
  .lock                held by the training that writes into the folder
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ds2.bundle import Bundle
from ds2.data.dataset import Batch
from ds2.model.acoustic import AcousticModel
from ds2.train.checkpoint import save_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.data import TrainingData
from ds2.train.metrics import Epoch, write_metrics
from ds2.train.run_state import RunState
from ds2.train.tensorboard import write_scalars
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError
from ds2.utils.files import in_utf8, make_folder, read_text, remove_partials, write_lines, write_text
from ds2.utils.folder_lock import FolderLock
from ds2.utils.version import VERSION

START = "start.json"
BATCHES_KEPT = 20  # minibatches of skipped updates kept in a run: enough to examine, too few to fill a disk

logger = logging.getLogger(__name__)


def check_name(folder: Path) -> None:
    """Refuses a folder in which neither TensorBoard could write nor safetensors open the model.

    Raises:
        InputError: its name is not UTF-8.
    """
    if not in_utf8(folder):
        raise InputError(f"{folder}: the name is not UTF-8, a model in this folder could not be opened; choose another")


def open_folder(folder: Path) -> FolderLock:
    """Makes the folder, locks it, and removes what a killed training left half-written.

    Raises:
        InputError: the folder cannot be written or has a bad name, or another process writes into it.
    """
    check_name(folder)
    make_folder(folder)
    lock = FolderLock(folder)
    remove_partials(folder)
    return lock


def write_epoch(folder: Path, state: RunState) -> None:
    """Writes the files of an epoch that has just been added to the history, and logs its figures."""
    record = state.history[-1]
    if state.skipped:
        write_lines(folder / "skipped.txt", state.skipped)
        logger.warning("%d utterances skipped in this epoch, listed in %s", len(state.skipped), folder / "skipped.txt")
    write_metrics(folder / "metrics.jsonl", state.history)
    write_scalars(folder / "tensorboard", record)
    speed = record["utterances_per_second"]
    logger.info(f"epoch {record['epoch']}: loss {record['loss']:.3f}, {dev_figures(record)}, {speed} utterances/s")


def write_start(folder: Path, name: Path | None, found: Mapping[str, float]) -> None:
    """Keeps and logs what the model that training begins from makes of the dev set: the epochs are compared with it."""
    write_text(folder / START, json.dumps({"epoch": 0, **found}) + "\n")
    logger.info("epoch 0, %s: %s", name, dev_figures(found))


def read_start(folder: Path) -> list[Epoch]:
    """The figures of the model that training began from, as an epoch 0; none if it began from nothing."""
    return [json.loads(read_text(folder / START))] if (folder / START).exists() else []


def dev_figures(record: Mapping[str, Any]) -> str:
    """What `validate` found, for a line of the log."""
    letters = f"WER {record['wer']:.2%}, CER {record['cer']:.2%}"
    if "per" not in record:
        return f"dev loss {record['dev_loss']:.3f}, greedy {letters}"
    return f"dev loss {record['dev_loss']:.3f}, PER {record['per']:.2%} (greedy, its letters alone: {letters})"


def write_batch(folder: Path, state: RunState, rank: int, minibatch: list[Batch]) -> None:
    """Saves the microbatches of a minibatch whose update was skipped, so that one can see what is wrong with it."""
    folder = folder / "skipped_updates"
    make_folder(folder)
    if len(list(folder.iterdir())) >= BATCHES_KEPT:
        return
    microbatches = [
        {
            "places": [utterance.place for utterance in batch.utterances],
            "files": [str(utterance.audio_path) for utterance in batch.utterances],
            "samples": batch.samples,
            "sample_lengths": batch.sample_lengths,
            "targets": batch.targets,
            "target_lengths": batch.target_lengths,
        }
        for batch in minibatch
    ]
    path = folder / f"epoch{state.epoch + 1}_batch{state.batch + 1}_rank{rank}.pt"
    save_checkpoint(path, {"microbatches": microbatches})
    logger.warning("an update was skipped because its gradient was bad; its minibatch is in %s", path)


def model_bundle(model: AcousticModel, config: TrainConfig, data: TrainingData, record: Epoch) -> Bundle:
    """The model at the end of an epoch."""
    training: dict[str, Any] = {
        "version": VERSION,
        "corpus": [path.name for path in config.data.train],
        "hours": round(data.hours, 3),
        "seed": config.seed,
    }
    if data.origin is not None:
        training["origin"] = data.origin
    training |= {key: record[key] for key in ("epoch", "loss", "dev_loss", "wer", "cer", "per") if key in record}
    vocabulary = None
    if config.data.closed_vocabulary:
        vocabulary = sorted({word for utterance in data.train for word in utterance.text.split()})
    return Bundle(
        weights=model.state_dict(),
        config=to_dict(config.model),
        tokens=list(data.tokenizer.tokens),
        training=training,
        vocabulary=vocabulary,
    )
