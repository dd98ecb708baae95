"""The training loop: read it from `Trainer.run` down.

The state of a run is its `RunState`, the replicas of its strategy (model, optimiser) and torch's random state on every
rank; data order and augmentation are functions of (seed, epoch, utterance). That is why a run killed at any moment
goes on from its checkpoint to the same weights as one that was never interrupted (on the CPU, with the same numbers of
threads and ranks; asynchronous training has no same weights to go to).
"""

import contextlib
import copy
import dataclasses
import itertools
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import record_function

from ds2.bundle import Bundle
from ds2.ctc.loss import required_frames
from ds2.data.dataset import Batch
from ds2.model.acoustic import AcousticModel
from ds2.train.checkpoint import load_checkpoint, save_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.data import Corpus, Loader, ending_workers, share_cores
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.ranks import Ranks
from ds2.train.distributed.strategies import Mixed, Strategy, Synchronous
from ds2.train.distributed.timeline import profiling
from ds2.train.objective import Objective
from ds2.train.observe import draw_curves, observe, write_histograms
from ds2.train.run_state import RunState, keep_batch, keep_record, model_bundle
from ds2.train.signals import Signals
from ds2.train.transfer import fit_weights, freeze, same_frontend
from ds2.train.update import Updater
from ds2.train.validation import validate
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError
from ds2.utils.files import make_folder
from ds2.utils.progress import Progress

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "synchronous": Synchronous,
    "mixed": Mixed,
    "asynchronous": Asynchronous,
}


class Trainer:
    """Trains the model of a TrainConfig into a folder: best.safetensors, metrics.jsonl, curves.png, checkpoint.pt."""

    def __init__(self, config: TrainConfig, folder: str | Path, device: str = "cpu", ranks: Ranks | None = None):
        """Reads the manifests, builds the model, resumes from the folder's checkpoint if there is one.

        With several ranks all see the same folder; the first one writes.

        Raises:
            InputError: bad manifests or configuration, or a checkpoint of another configuration.
        """
        self.config = config
        self.folder = Path(folder)
        self.ranks = ranks or Ranks()
        start = Bundle.load(config.start_from) if config.start_from is not None else None
        self.corpus = Corpus(config, self.ranks, start)
        share_cores(config.data.workers)
        torch.manual_seed(config.seed)
        self.model = AcousticModel(config.model, len(self.corpus.tokenizer)).to(device)
        self.state = RunState()
        make_folder(self.folder)
        resuming = self.checkpoint.exists()
        if start is not None and not resuming:
            fit_weights(self.model, self.corpus.tokenizer, start, config)
        if not resuming and self.ranks.first and (start is None or not same_frontend(start, config)):
            self.corpus.measure(self.model.frontend)
        self.ranks.broadcast(self.model)
        if self.ranks.number > 0:
            torch.manual_seed(hash((config.seed, self.ranks.number)))  # dropout of its own
        freeze(self.model, config.start, 0)  # complains of names that are none
        self.strategy = self._make_strategy()
        if resuming:
            self._resume()
        self.saved_at = time.monotonic()
        self.signals = Signals()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    @property
    def best(self) -> Path:
        return self.folder / "best.safetensors"

    def run(self) -> Path:
        """Trains to the last epoch and returns the bundle of the epoch with the best dev WER.

        Raises:
            SystemExit: SIGTERM or SIGINT came; the checkpoint is written.
        """
        with (
            ending_workers(self.corpus.training()) as loader,
            self.signals.heeded(),
            profiling(self.folder, self.config, self.corpus, self.ranks) as self.profiled,
        ):
            while not self._finished():
                self._train_epoch(loader)
                self._finish_epoch()
        self.strategy.finish()
        if self.ranks.first:
            draw_curves(self.folder / "curves.png", {"": self.state.history})
        return self.best

    def _finished(self) -> bool:
        config, state = self.config, self.state
        tired = config.patience > 0 and state.epoch - state.best_epoch >= config.patience
        return state.epoch >= config.epochs or (tired and state.batch == 0)

    def _train_epoch(self, loader: Loader) -> None:
        state = self.state
        freeze(self.model.train(), self.config.start, state.epoch)
        self.strategy.begin_epoch()
        self.corpus.sampler.begin(state.epoch, state.batch)
        title = f"epoch {state.epoch + 1}/{self.config.epochs}"
        total, done = self.corpus.sampler.heard(state.epoch), state.batch * self.config.batch_size
        with Progress(title, total, "utterances", done) if self.ranks.first else contextlib.nullcontext() as progress:
            began = time.monotonic()
            for minibatch in minibatches(loader, self.config.accumulate):
                self._train_minibatch(minibatch)
                self.profiled()
                state.seconds += time.monotonic() - began
                began = time.monotonic()
                if progress is not None:
                    loss = state.loss_sum / max(1, state.utterances)
                    progress.step(min(self.config.batch_size, total - done), f"loss {loss:.3f}")
                    done += self.config.batch_size

    def _train_minibatch(self, minibatch: list[Batch]) -> None:
        """This rank's pieces of a minibatch: gradients, update, and the checkpoint where one is due."""
        state, config = self.state, self.config
        with record_function("ds2: waiting"):
            agreement = self.strategy.agree(
                sum(len(batch.utterances) for batch in minibatch), self._checkpoint_due(), self.signals.heard > 0
            )
        for number, batch in enumerate(minibatch):
            state.skipped += batch.skipped
            if agreement.utterances:
                self._train_piece(batch, number, agreement.utterances)
        if agreement.utterances:
            with record_function("ds2: update"):
                good = self.strategy.update(state.epoch)
            state.step = self.strategy.updater.step
            if not good:
                keep_batch(self.folder, state, self.ranks.number, minibatch)
        state.batch += 1
        if agreement.save or agreement.stop or state.batch % config.checkpoint_every == 0:
            self._save_checkpoint()
        if agreement.stop:
            if self.ranks.first:
                print(f"ds2: stopped in epoch {state.epoch + 1}; the same command goes on from here", file=sys.stderr)
            raise SystemExit(128 + (self.signals.heard or signal.SIGTERM))  # or: another rank was told

    def _train_piece(self, batch: Batch, number: int, utterances: float) -> None:
        state, config = self.state, self.config
        slot = self.ranks.number * config.accumulate + number
        key = (config.seed, state.epoch, state.batch) + ((slot,) if slot else ())
        losses, lengths = self.strategy.backward(batch, key, utterances, number == config.accumulate - 1)
        if not batch.utterances:
            return
        state.loss_sum += float(losses.sum())
        state.utterances += len(losses)
        too_long = required_frames(batch.targets, batch.target_lengths) > lengths.cpu()
        for index in too_long.nonzero().flatten().tolist():
            utterance = batch.utterances[index]
            state.skipped.append(f"{utterance.place}: {len(utterance.text)} characters in {int(lengths[index])} frames")

    def _finish_epoch(self) -> None:
        """Validates, keeps the model if it is the best, writes the record; then the next epoch may begin."""
        self.strategy.settle()
        state = self._joint_state()
        if len(state.skipped) >= self.corpus.sampler.heard(state.epoch):
            first = state.skipped[0] if state.skipped else "sampling.epoch_hours is less than an utterance"
            raise InputError(f"epoch {state.epoch + 1}: it has no utterance that can be trained on; {first}")
        judged = self.strategy.updater.judged
        validation = validate(judged, self.corpus.tokenizer, self.corpus.held_out(), self.ranks)
        if math.isnan(validation["wer"]):
            raise InputError(f"{self.config.data.dev}: no utterance of the dev manifest can be read")
        record = state.record(validation, self.strategy.updater.rate)
        state.history.append(record)
        standing = (record["wer"], record["dev_loss"])
        better = standing < state.best
        if better:
            state.best, state.best_epoch = standing, state.epoch + 1
        if self.ranks.first:
            if better:
                model_bundle(judged, self.config, self.corpus, record).save(self.best)
            keep_record(self.folder, state)
            self._observe(judged)
        self.state = state.next_epoch()
        self._save_checkpoint()

    def _observe(self, model: AcousticModel) -> None:
        """Looks inside the model while it reads a few dev utterances, the same ones after every epoch."""
        batch = self.corpus.observed()
        if batch.utterances:
            found = observe(model, self.corpus.tokenizer, batch, self.state.epoch + 1)
            found.save(self.folder / "observed")
            write_histograms(self.folder / "tensorboard", model, found)

    def _make_strategy(self) -> Strategy:
        """Each rank's model learns; of asynchronous ranks a copy of the first one's, in the parameter server."""
        name = self.config.parallel.strategy if self.ranks.size > 1 else "synchronous"
        own = name == "asynchronous"
        updates = self.corpus.batches_of_run() * (self.ranks.size if own else 1)
        served = copy.deepcopy(self.model) if own and self.ranks.first else self.model
        updater = Updater(served, self.config, updates)
        return STRATEGIES[name](Objective(self.model, self.config), updater, self.ranks, self.config.parallel)

    def _joint_state(self) -> RunState:
        """What all ranks did in this epoch, in the state of each."""
        return self.state.joined(self.ranks.gather(self.state))

    def _fingerprint(self) -> dict[str, Any]:
        """What must not change between a checkpoint and its resumption."""
        config = to_dict(self.config)
        for free in ("parallel", "checkpoint_every", "checkpoint_minutes", "accumulate", "profile", "observe"):
            del config[free]
        del config["data"]["workers"]
        return {**config, "utterances": len(self.corpus.train), "hours": self.corpus.hours}

    def _checkpoint_due(self) -> bool:
        minutes = self.config.checkpoint_minutes
        return minutes > 0 and time.monotonic() - self.saved_at > 60 * minutes

    def _save_checkpoint(self) -> None:
        """Every rank tells its part; the first one writes, and none goes on before."""
        self.saved_at = time.monotonic()
        replicas, state = self.strategy.replicas(), self._joint_state()
        random = self.ranks.gather(random_state())
        if self.ranks.first:
            saved = {"fingerprint": self._fingerprint(), "state": dataclasses.asdict(state)}
            save_checkpoint(self.checkpoint, {**saved, "replicas": replicas, "random": random})

    def _resume(self) -> None:
        saved = load_checkpoint(self.checkpoint)
        now, then = self._fingerprint(), saved["fingerprint"]
        changed = [key for key in now | then if now.get(key) != then.get(key)]
        if changed:
            raise InputError(
                f"{self.checkpoint}: made with another {', '.join(changed)}; "
                "train into another folder, or remove this one to start again"
            )
        self.state = RunState(**saved["state"])
        if not self.ranks.first:
            self.state.forget()
        self.strategy.load_replicas(saved["replicas"])
        if len(saved["random"]) == self.ranks.size:
            restore_random_state(saved["random"][self.ranks.number])
        if self.ranks.first:
            print(f"resuming at epoch {self.state.epoch + 1}, batch {self.state.batch}", flush=True)


def minibatches(loader: Loader, pieces: int) -> Iterator[list[Batch]]:
    """The pieces of each minibatch together."""
    batches = iter(loader)
    while True:
        with record_function("ds2: data"):
            minibatch = list(itertools.islice(batches, pieces))
        if not minibatch:
            return
        yield minibatch


def random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random_state(state: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
