"""The training loop: read it from `Trainer.run` down.

The state of a run is its `RunState`, the replicas of its strategy (model, optimiser) and torch's random state on every
rank; data order and augmentation are functions of (seed, epoch, utterance). This is why a run that is killed at any
moment continues from its checkpoint to the same weights as one that was never interrupted (on the CPU, with the same
numbers of threads and ranks; asynchronous training is not reproducible).
"""

import contextlib
import copy
import dataclasses
import logging
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.autograd.profiler import record_function

from ds2.ctc.loss import required_frames
from ds2.data.dataset import Batch
from ds2.model.acoustic import AcousticModel
from ds2.train.best_epoch import best_of, selection_error
from ds2.train.checkpoint import REMEDY, load_checkpoint, save_checkpoint
from ds2.train.config import SERVED, TrainConfig
from ds2.train.curves import draw_curves
from ds2.train.data import Loader, TrainingData, ending_workers, minibatches
from ds2.train.distributed.asynchronous import Asynchronous
from ds2.train.distributed.backup_workers import BackupWorkers
from ds2.train.distributed.local_sgd import LocalSGD
from ds2.train.distributed.ranks import Ranks
from ds2.train.distributed.strategy import Strategy
from ds2.train.distributed.synchronous import Synchronous
from ds2.train.distributed.timeline import profiling
from ds2.train.fingerprint import check_fingerprint, fingerprint
from ds2.train.finite_weights import load_finite
from ds2.train.network_activity import observe
from ds2.train.objective import Objective
from ds2.train.phone_loss import PhoneLoss
from ds2.train.run_folder import model_bundle, open_folder, read_start, write_batch, write_epoch, write_start
from ds2.train.run_state import RunState, random_state, restore_random_state
from ds2.train.signals import Signals, TrainingStopped
from ds2.train.tensorboard import LossLog, write_histograms
from ds2.train.transfer import fit_weights, freeze, same_frontend
from ds2.train.update import Updater
from ds2.train.validation import validate
from ds2.utils.errors import InputError
from ds2.utils.progress import Progress
from ds2.utils.resources import give_back_memory, keep_freed_memory, share_cores

LINE_SECONDS = 60.0  # between two lines of progress where there is no terminal

logger = logging.getLogger(__name__)

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "synchronous": Synchronous,
    "local-sgd": LocalSGD,
    "asynchronous": Asynchronous,
    "mixed": Asynchronous,
    "backup-workers": BackupWorkers,
}


class Trainer:
    """Trains the model of a TrainConfig into a folder, see run_folder.py."""

    def __init__(self, config: TrainConfig, folder: str | Path, device: str = "cpu", ranks: Ranks | None = None):
        """Reads the manifests, builds the model, resumes from the folder's checkpoint if there is one.

        With several ranks all see the same folder; the first one writes.

        Raises:
            InputError: bad manifests or configuration, a checkpoint that is damaged or of another configuration, or a
                folder that another training writes into.
        """
        self.config = config
        self.folder = Path(folder)
        self.ranks = ranks or Ranks()
        start = load_finite(config.start_from) if config.start_from is not None else None
        self.data = TrainingData(config, self.ranks, start)
        self.lock = open_folder(self.folder) if self.ranks.first else None
        share_cores(config.data.workers)
        keep_freed_memory()
        torch.manual_seed(config.seed)
        self.model = AcousticModel(config.model, len(self.data.tokenizer)).to(device)
        self.data.set_steps(self.model)
        self.state = RunState()
        resuming = self.checkpoint.exists()
        # A new run begins from a bundle, or measures its own features; one that resumes takes both from the checkpoint.
        if start is not None and not resuming:
            fit_weights(self.model, self.data.tokenizer, start, config)
        if not resuming and self.ranks.first and (start is None or not same_frontend(start, config)):
            self.data.measure_features(self.model.frontend)
        self.ranks.broadcast(list(self.model.state_dict().values()))
        if self.ranks.number > 0:
            torch.manual_seed(hash((config.seed, self.ranks.number)))  # each rank has its own dropout
        freeze(self.model, config.start, 0)  # raises InputError where a name in start.freeze is wrong
        lexicon = config.data.lexicon
        self.phone_loss = None if lexicon is None else PhoneLoss(config, lexicon, self.data.sample_of_texts())
        self.strategy = self._make_strategy()
        if resuming:
            self._resume()
        self.saved_at = time.monotonic()
        self.costs = self.ranks.costs()  # those that are counted in the state, or came before
        self.signals = Signals()

    @property
    def checkpoint(self) -> Path:
        """The file that a training continues from."""
        return self.folder / "checkpoint.pt"

    @property
    def best(self) -> Path:
        """The bundle of the best epoch."""
        return self.folder / "best.safetensors"

    def run(self) -> Path:
        """Trains to the last epoch and returns the bundle of the best epoch, see best_epoch.py.

        Raises:
            TrainingStopped: SIGTERM or SIGINT came; the checkpoint is written.
        """
        with (
            self.lock or contextlib.nullcontext(),
            ending_workers(self.data.train_loader()) as loader,
            self.signals.handled(),
            profiling(self.folder, self.config, self.data, self.ranks) as self.end_of_minibatch,
        ):
            if self._finished() and self.ranks.first:
                done = f"{self.folder}: training has ended after {self.state.epoch} epochs"
                logger.info("%s; to train on in this folder, raise epochs, and patience where it is set", done)
            if self.config.start_from is not None and self.state == RunState():
                self._log_start()
            while not self._finished():
                self._train_epoch(loader)
                self._finish_epoch()
            self.strategy.finish()
            if self.ranks.first:
                draw_curves(self.folder / "curves.png", {"": [*read_start(self.folder), *self.state.history]})
        return self.best

    def _log_start(self) -> None:
        """Measures the model that training begins from."""
        found = self._validate()
        if self.ranks.first:
            write_start(self.folder, self.config.start_from, found)

    def _finished(self) -> bool:
        config, state = self.config, self.state
        no_better = config.patience > 0 and state.epoch - state.best_epoch >= config.patience
        return state.epoch >= config.epochs or (no_better and state.batch == 0)

    def _train_epoch(self, loader: Loader) -> None:
        state = self.state
        freeze(self.model.train(), self.config.start, state.epoch)
        self.strategy.begin_epoch()
        self.data.sampler.begin(state.epoch, state.batch)
        total, done = self.data.sampler.utterances(state.epoch), state.batch * self.config.batch_size
        log = LossLog(self.folder / "tensorboard" if self.ranks.first else None, state)
        with self._progress(f"epoch {state.epoch + 1}/{self.config.epochs}", total, done) as progress, log:
            began, busy = time.monotonic(), time.process_time()
            for minibatch in minibatches(loader, self.config.accumulate):
                self._train_minibatch(minibatch)
                state.add_time(time.monotonic() - began, time.process_time() - busy)
                self.end_of_minibatch()
                began, busy = time.monotonic(), time.process_time()
                log.add(state)
                if progress is not None:
                    loss = state.loss_sum / max(1, state.utterances)
                    progress.step(min(self.config.batch_size, total - done), f"loss {loss:.3f}")
                    done += self.config.batch_size

    def _progress(self, title: str, total: int, done: int) -> "contextlib.AbstractContextManager[Progress | None]":
        """Counts the utterances of an epoch, on the first rank only."""
        if not self.ranks.first:
            return contextlib.nullcontext()
        return Progress(title, total, "utterances", done, LINE_SECONDS)

    def _train_minibatch(self, minibatch: list[Batch]) -> None:
        """This rank's microbatches of a minibatch: gradients, update, and the checkpoint where one is due."""
        state = self.state
        # All ranks must agree on the utterances, on saving and on stopping, or one would wait for the others for ever.
        with self.ranks.pause("waiting"):
            agreement = self.strategy.agree(
                sum(len(batch.utterances) for batch in minibatch), self._checkpoint_due(), self.signals.received > 0
            )
        for number, batch in enumerate(minibatch):
            state.skipped += batch.skipped
            if agreement.utterances:
                self._train_microbatch(batch, number, agreement.utterances)
        if agreement.utterances:
            with record_function("ds2: update"):
                good = self.strategy.update(state.epoch)
            state.step = self.strategy.updater.step
            if not good:
                write_batch(self.folder, state, self.ranks.number, minibatch)
        state.batch += 1
        if agreement.save or agreement.stop:
            self._save_checkpoint()
        if agreement.stop:  # this rank received the signal, or another one
            message = f"stopped in epoch {state.epoch + 1}; run the same command again to continue"
            raise TrainingStopped(message, self.signals.received or signal.SIGTERM)

    def _train_microbatch(self, batch: Batch, number: int, utterances: float) -> None:
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
        """Validates, saves the model if it is the best, writes the figures, and begins the next epoch."""
        self.strategy.settle()
        state = self._joint_state()
        if len(state.skipped) >= self.data.sampler.utterances(state.epoch):
            first = state.skipped[0] if state.skipped else "sampling.epoch_hours is shorter than an utterance"
            raise InputError(f"epoch {state.epoch + 1}: no utterance can be trained on; {first}")
        validation = self._validate()
        record = state.record(validation, self.strategy.updater.rate, self.ranks.size)
        state.history.append(record)
        better = best_of(state.history) is record
        if better:
            state.best, state.best_epoch = selection_error(record), state.epoch + 1
        if self.ranks.first:
            model = self.strategy.updater.validated
            if better:
                model_bundle(model, self.config, self.data, record).save(self.best)
            write_epoch(self.folder, state)
            self._observe(model)
        self.state = state.next_epoch()
        self._save_checkpoint()
        give_back_memory()

    def _validate(self) -> dict[str, float]:
        """The figures of the dev set with the weights of now."""
        loader, known = self.data.dev_loader(), None if self.phone_loss is None else self.phone_loss.pronunciations
        found = validate(self.strategy.updater.validated, self.data.tokenizer, loader, self.ranks, known)
        if math.isnan(found["wer"]):
            raise InputError(f"{self.config.data.dev}: no utterance of the dev manifest can be read")
        return found

    def _observe(self, model: AcousticModel) -> None:
        """Records what the model does with a few dev utterances, the same ones after every epoch."""
        batch = self.data.observed()
        if batch.utterances:
            found = observe(model, self.data.tokenizer, batch, self.state.epoch + 1)
            found.save(self.folder / "observed")
            write_histograms(self.folder / "tensorboard", model, found)

    def _make_strategy(self) -> Strategy:
        """Each rank updates its own model; a parameter server updates a copy."""
        config = self.config.parallel
        name = config.strategy if self.ranks.size > 1 else "synchronous"
        updates = self.data.batches_of_run() * config.groups(self.ranks.size)
        serves = name in SERVED and self.ranks.number < config.served_by
        updater = Updater(copy.deepcopy(self.model) if serves else self.model, self.config, updates)
        return STRATEGIES[name](Objective(self.model, self.config, self.phone_loss), updater, self.ranks, config)

    def _joint_state(self) -> RunState:
        """The state with the sums of all ranks."""
        before, self.costs = self.costs, self.ranks.costs()
        self.state.add_costs(self.costs.since(before))
        return self.state.joined(self.ranks.gather(self.state))

    def _checkpoint_due(self) -> bool:
        minutes = self.config.checkpoint_minutes
        return minutes > 0 and time.monotonic() - self.saved_at > 60 * minutes

    def _save_checkpoint(self) -> None:
        """Every rank sends its part; the first one writes."""
        self.saved_at = time.monotonic()
        replicas, state = self.strategy.replicas(), self._joint_state()
        random = self.ranks.gather(random_state())
        if self.ranks.first:
            saved = {"fingerprint": fingerprint(self.config, self.data), "state": dataclasses.asdict(state)}
            save_checkpoint(self.checkpoint, {**saved, "replicas": replicas, "random": random})

    def _resume(self) -> None:
        saved = load_checkpoint(self.checkpoint, "fingerprint", "state", "replicas", "random")
        check_fingerprint(self.checkpoint, saved["fingerprint"], fingerprint(self.config, self.data))
        try:
            self.state = RunState(**saved["state"])
            self.strategy.load_replicas(saved["replicas"])
            if len(saved["random"]) == self.ranks.size:
                restore_random_state(saved["random"][self.ranks.number])
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"{self.checkpoint}: not a checkpoint of this version ({error}); {REMEDY}") from error
        if not self.ranks.first:
            self.state.forget()
        if self.ranks.first and self.state.epoch < self.config.epochs:
            logger.info("resuming at epoch %d, batch %d", self.state.epoch + 1, self.state.batch)
