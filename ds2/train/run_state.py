"""Where a run stands, and what it leaves in its folder: metrics, what it left out, the best bundle."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import ds2
from ds2.bundle import Bundle
from ds2.data.dataset import Batch
from ds2.model.acoustic import AcousticModel
from ds2.train.checkpoint import save_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.data import Corpus
from ds2.train.observe import Epoch, write_metrics, write_tensorboard
from ds2.utils.config import to_dict
from ds2.utils.files import atomic_write, make_folder

BATCHES_KEPT = 20  # of those left out, in a run: enough to look at, too few to fill a disk


@dataclass
class RunState:
    """Where a run stands; saved in every checkpoint. Sums over an epoch are of this rank until they are joined."""

    epoch: int = 0
    batch: int = 0  # minibatches done in this epoch
    step: int = 0  # updates done in all
    loss_sum: float = 0.0  # over the utterances of this epoch
    utterances: int = 0  # done in this epoch
    seconds: float = 0.0  # spent in this epoch
    skipped: list[str] = field(default_factory=list)  # a line for each utterance left out, this epoch
    history: list[Epoch] = field(default_factory=list)
    best: tuple[float, float] = (math.inf, math.inf)  # dev WER and loss of the model kept
    best_epoch: int = 0  # epochs done when it was

    def joined(self, parts: "list[RunState]") -> "RunState":
        """With the sums of all ranks."""
        return dataclasses.replace(
            self,
            loss_sum=sum(part.loss_sum for part in parts),
            utterances=sum(part.utterances for part in parts),
            skipped=[line for part in parts for line in part.skipped],
        )

    def forget(self) -> None:
        """The sums of this epoch: after a resumption they are the first rank's."""
        self.loss_sum, self.utterances, self.skipped = 0.0, 0, []

    def next_epoch(self) -> "RunState":
        return dataclasses.replace(
            self, epoch=self.epoch + 1, batch=0, loss_sum=0.0, utterances=0, seconds=0.0, skipped=[]
        )

    def record(self, validation: dict[str, float], rate: float) -> Epoch:
        """The figures of this epoch, as metrics.jsonl holds them."""
        return {
            "epoch": self.epoch + 1,
            "step": self.step,
            "loss": self.loss_sum / max(1, self.utterances),
            **validation,
            "learning_rate": rate,
            "seconds": round(self.seconds, 2),
            "utterances_per_second": round(self.utterances / max(self.seconds, 1e-9), 1),
            "skipped": len(self.skipped),
        }


def keep_record(folder: Path, state: RunState) -> None:
    """Of an epoch that has just been added to the history: files, TensorBoard, a line for the person who watches."""
    record = state.history[-1]
    if state.skipped:
        path = folder / "skipped.txt"
        with atomic_write(path) as partial:
            partial.write_text("\n".join(state.skipped) + "\n", encoding="utf-8")
        print(f"{len(state.skipped)} utterances left out in this epoch, listed in {path}", flush=True)
    write_metrics(folder / "metrics.jsonl", state.history)
    write_tensorboard(folder / "tensorboard", record)
    print(
        f"epoch {record['epoch']}: loss {record['loss']:.3f}, dev loss {record['dev_loss']:.3f}, "
        f"WER {record['wer']:.2%}, CER {record['cer']:.2%}, {record['utterances_per_second']} utterances/s",
        flush=True,
    )


def keep_batch(folder: Path, state: RunState, rank: int, minibatch: list[Batch]) -> None:
    """Saves the pieces of a minibatch whose update was left out, for a look at what is wrong with it."""
    folder = folder / "left_out"
    make_folder(folder)
    if len(list(folder.iterdir())) >= BATCHES_KEPT:
        return
    pieces = [
        {
            "places": [utterance.place for utterance in batch.utterances],
            "files": [str(utterance.audio_path) for utterance in batch.utterances],
            **{name: getattr(batch, name) for name in ("samples", "sample_lengths", "targets", "target_lengths")},
        }
        for batch in minibatch
    ]
    path = folder / f"epoch{state.epoch + 1}_batch{state.batch + 1}_rank{rank}.pt"
    save_checkpoint(path, {"pieces": pieces})
    print(f"an update was left out, its gradient was no good; its minibatch is kept in {path}", flush=True)


def model_bundle(model: AcousticModel, config: TrainConfig, corpus: Corpus, record: Epoch) -> Bundle:
    """The model at the end of an epoch."""
    training = {
        "version": ds2.__version__,
        "corpus": [path.name for path in config.data.train],
        "hours": round(corpus.hours, 3),
        "seed": config.seed,
        **{key: record[key] for key in ("epoch", "loss", "dev_loss", "wer", "cer")},
    }
    metadata: dict[str, Any] = {
        "config": to_dict(config.model),
        "tokens": list(corpus.tokenizer.tokens),
        "training": training,
    }
    if config.data.closed_vocabulary:
        metadata["vocabulary"] = sorted({word for utterance in corpus.train for word in utterance.text.split()})
    weights: dict[str, torch.Tensor] = model.state_dict()
    return Bundle(weights, metadata)
