"""The training loop: read it from `Trainer.run` down.

The state of a run is its `RunState`, the model, the optimiser and torch's random state; data order and augmentation
are functions of (seed, epoch, utterance). That is why a run killed at any moment goes on from its checkpoint to the
same weights as one that was never interrupted (on the CPU, with the same number of threads).
"""

import dataclasses
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import ds2
from ds2.bundle import Bundle
from ds2.config import to_dict
from ds2.ctc import ctc_loss
from ds2.ctc.alignment import frame_labels
from ds2.ctc.loss import required_frames
from ds2.data.augment import Augmenter, augment_features, seeded_generator
from ds2.data.dataset import Batch, SpeechDataset, collate
from ds2.data.manifest import Utterance, check_characters, read_manifest
from ds2.data.sampler import SortaGradSampler, part_of
from ds2.errors import InputError
from ds2.files import make_folder, whole_file
from ds2.model.acoustic import AcousticModel
from ds2.model.random_walk import affinity_loss
from ds2.progress import Progress
from ds2.text import Tokenizer
from ds2.train.checkpoint import load_checkpoint, save_checkpoint
from ds2.train.config import TrainConfig
from ds2.train.observe import Epoch, draw_curves, write_metrics, write_tensorboard
from ds2.train.optimizer import learning_rate, make_optimizer
from ds2.train.validation import validate

STATISTICS_UTTERANCES = 200  # for the mean and deviation of the features
NON_FINITE_LIMIT = 20  # updates in a row without a finite gradient: the run has diverged


@dataclass
class RunState:
    """Where a run stands; saved in every checkpoint."""

    epoch: int = 0
    batch: int = 0  # minibatches done in this epoch
    step: int = 0  # updates done in all
    loss_sum: float = 0.0  # over the utterances of this epoch
    utterances: int = 0  # done in this epoch
    seconds: float = 0.0  # spent in this epoch
    non_finite: int = 0  # updates left out in a row
    skipped: list[str] = field(default_factory=list)  # a line for each utterance left out, this epoch
    history: list[Epoch] = field(default_factory=list)
    best: tuple[float, float] = (math.inf, math.inf)  # dev WER and loss of the model kept


class Trainer:
    """Trains the model of a TrainConfig into a folder: best.safetensors, metrics.jsonl, curves.png, checkpoint.pt."""

    def __init__(self, config: TrainConfig, folder: str | Path, device: str = "cpu"):
        """Reads the manifests, builds the model, resumes from the folder's checkpoint if there is one.

        Raises:
            InputError: bad manifests or configuration, or a checkpoint of another configuration.
        """
        self.config = config
        self.folder = Path(folder)
        self.device = torch.device(device)
        utterances = [utterance for path in config.data.train for utterance in read_manifest(path)]
        self.train_set = part_of(utterances, config.data.fraction)
        self.dev_set = read_manifest(config.data.dev)
        start = Bundle.load(config.start_from) if config.start_from is not None else None
        if start is None:
            self.tokenizer = Tokenizer.from_texts((utterance.text for utterance in utterances), config.data.units)
        else:
            self.tokenizer = Tokenizer(start.metadata["tokens"])
            check_characters(self.train_set, self.tokenizer)
        check_characters(self.dev_set, self.tokenizer)
        share_cores(config.data.workers)
        torch.manual_seed(config.seed)
        self.model = AcousticModel(config.model, len(self.tokenizer)).to(self.device)
        self.optimizer = make_optimizer(self.model, config.optimizer)
        durations = [utterance.duration for utterance in self.train_set]
        self.sampler = SortaGradSampler(durations, config.batch_size, config.seed, config.sortagrad)
        self.state = RunState()
        make_folder(self.folder)
        if self.checkpoint.exists():
            self._resume()
        elif start is not None:
            self._load_start(start)
        else:
            self._measure_features()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    @property
    def best(self) -> Path:
        return self.folder / "best.safetensors"

    def run(self) -> Path:
        """Trains to the last epoch and returns the bundle of the epoch with the best dev WER."""
        loader = self._loader(self.train_set, augment=True)
        while self.state.epoch < self.config.epochs:
            self._train_epoch(loader)
            self._finish_epoch()
        draw_curves(self.folder / "curves.png", {"": self.state.history})
        return self.best

    def _train_epoch(self, loader: "DataLoader[Any]") -> None:
        state = self.state
        self.model.train()
        self.sampler.begin(state.epoch, state.batch)
        title = f"epoch {state.epoch + 1}/{self.config.epochs}"
        with Progress(title, len(self.train_set), "utterances", state.batch * self.config.batch_size) as progress:
            began = time.monotonic()
            for batch in loader:
                self._train_batch(batch)
                state.batch += 1
                state.seconds += time.monotonic() - began
                began = time.monotonic()
                loss = state.loss_sum / max(1, state.utterances)
                progress.step(len(batch.utterances) + len(batch.skipped), f"loss {loss:.3f}")
                if state.batch % self.config.checkpoint_every == 0:
                    self._save_checkpoint()

    def _train_batch(self, batch: Batch) -> None:
        state = self.state
        state.skipped += batch.skipped
        if not batch.utterances:
            return
        losses = self._losses(batch)
        self.optimizer.zero_grad(set_to_none=True)
        (losses.sum() / len(losses)).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimizer.clip_norm)
        state.step += 1
        state.loss_sum += float(losses.detach().sum())
        state.utterances += len(losses)
        if not bool(norm.isfinite()):
            self._leave_out_update()
            return
        state.non_finite = 0
        steps = self.config.epochs * len(self.sampler)
        rate = learning_rate(self.config.optimizer, state.step - 1, steps, state.epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def _losses(self, batch: Batch) -> Tensor:
        """(B,) nats; utterances with more labels than their frames can hold cost 0 and are reported as skipped."""
        device, state = self.device, self.state
        features, lengths = self.model.frontend(batch.samples.to(device), batch.sample_lengths.to(device))
        generator = seeded_generator(self.config.seed, state.epoch, state.batch)
        features = augment_features(features, lengths, self.config.augment, generator)
        logits, lengths, affinities = self.model.network(features, lengths)
        too_long = required_frames(batch.targets, batch.target_lengths) > lengths.cpu()
        for index in too_long.nonzero().flatten().tolist():
            utterance = batch.utterances[index]
            state.skipped.append(f"{utterance.place}: {len(utterance.text)} characters in {int(lengths[index])} frames")
        targets, target_lengths = batch.targets.to(device), batch.target_lengths.to(device)
        losses = ctc_loss(logits, targets, lengths, target_lengths, reduction="none", zero_infinity=True)
        if affinities is not None:
            labels = frame_labels(logits, lengths, targets, target_lengths)
            losses = losses + affinity_loss(affinities, labels, lengths)
        return losses

    def _leave_out_update(self) -> None:
        self.state.non_finite += 1
        if self.state.non_finite >= NON_FINITE_LIMIT:
            raise InputError(
                f"training diverged: {NON_FINITE_LIMIT} updates in a row without a finite gradient; "
                "lower optimizer.learning_rate or optimizer.clip_norm and start in another folder"
            )

    def _finish_epoch(self) -> None:
        """Validates, keeps the model if it is the best, writes the record; then the next epoch may begin."""
        state = self.state
        validation = validate(self.model, self.tokenizer, self._loader(self.dev_set, augment=False))
        if math.isnan(validation["wer"]):
            raise InputError(f"{self.config.data.dev}: no utterance of the dev manifest can be read")
        record: Epoch = {
            "epoch": state.epoch + 1,
            "step": state.step,
            "loss": state.loss_sum / max(1, state.utterances),
            **validation,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(state.seconds, 2),
            "utterances_per_second": round(state.utterances / max(state.seconds, 1e-9), 1),
            "skipped": len(state.skipped),
        }
        state.history.append(record)
        standing = (record["wer"], record["dev_loss"])
        if standing < state.best:
            state.best = standing
            self._save_bundle(record)
        self._report_skipped()
        write_metrics(self.folder / "metrics.jsonl", state.history)
        write_tensorboard(self.folder / "tensorboard", record)
        self.state = dataclasses.replace(
            state, epoch=state.epoch + 1, batch=0, loss_sum=0.0, utterances=0, seconds=0.0, skipped=[]
        )
        self._save_checkpoint()
        print(
            f"epoch {record['epoch']}: loss {record['loss']:.3f}, dev loss {record['dev_loss']:.3f}, "
            f"WER {record['wer']:.2%}, CER {record['cer']:.2%}, {record['utterances_per_second']} utterances/s",
            flush=True,
        )

    def _report_skipped(self) -> None:
        if not self.state.skipped:
            return
        path = self.folder / "skipped.txt"
        with whole_file(path) as partial:
            partial.write_text("\n".join(self.state.skipped) + "\n", encoding="utf-8")
        print(f"{len(self.state.skipped)} utterances left out in this epoch, listed in {path}", flush=True)

    def _loader(self, utterances: list[Utterance], augment: bool) -> "DataLoader[Any]":
        """Batches of the training set, augmented, in the sampler's order; or of another set as it is."""
        config = self.config
        rate, workers = config.model.frontend.sample_rate, config.data.workers
        augmenter = Augmenter(config.augment, rate, config.seed) if augment else None
        durations = [utterance.duration for utterance in utterances]
        return DataLoader(
            SpeechDataset(utterances, self.tokenizer, rate, augmenter),
            batch_sampler=self.sampler if augment else SortaGradSampler(durations, config.batch_size, config.seed),
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=augment and workers > 0,
            generator=torch.Generator(),  # a loader draws a number when it starts: not from the run's random state
        )

    def _load_start(self, start: Bundle) -> None:
        try:
            self.model.load_state_dict(start.weights)
        except RuntimeError as error:
            raise InputError(
                f"{self.config.start_from}: its weights are of another shape than [model] asks for; "
                "give the model the bundle's configuration, see ds2 info"
            ) from error

    def _measure_features(self) -> None:
        """Mean and deviation of every frequency bin over evenly spaced training utterances, into the front end."""
        every = max(1, len(self.train_set) // STATISTICS_UTTERANCES)
        frames, batches = [], list(self._loader(self.train_set[::every], augment=False))
        if self.config.model.frontend.power == "adaptive" and batches:
            energy = sum(float(batch.samples.square().sum()) for batch in batches)
            self.model.frontend.set_prior(energy / sum(int(batch.sample_lengths.sum()) for batch in batches))
        for batch in batches:
            features, lengths = self.model.frontend.log_spectrogram(batch.samples, batch.sample_lengths)
            frames += [row[:, :length] for row, length in zip(features, lengths.tolist(), strict=True)]
        if not frames:
            raise InputError(f"{self.config.data.train[0]}: none of the first utterances tried can be read")
        joined = torch.cat(frames, dim=1)
        self.model.frontend.set_statistics(joined.mean(1), joined.std(1))

    def _fingerprint(self) -> dict[str, Any]:
        """What must not change between a checkpoint and its resumption."""
        config = to_dict(self.config)
        del config["data"]["workers"]
        hours = sum(utterance.duration for utterance in self.train_set) / 3600
        return {**config, "utterances": len(self.train_set), "hours": hours}

    def _save_checkpoint(self) -> None:
        save_checkpoint(
            self.checkpoint,
            {
                "fingerprint": self._fingerprint(),
                "state": dataclasses.asdict(self.state),
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": torch.get_rng_state(),
            },
        )

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
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        print(f"resuming at epoch {self.state.epoch + 1}, batch {self.state.batch}", flush=True)

    def _save_bundle(self, record: Epoch) -> None:
        training = {
            "version": ds2.__version__,
            "corpus": [path.name for path in self.config.data.train],
            "hours": round(sum(utterance.duration for utterance in self.train_set) / 3600, 3),
            "seed": self.config.seed,
            **{key: record[key] for key in ("epoch", "loss", "dev_loss", "wer", "cer")},
        }
        metadata = {"config": to_dict(self.config.model), "tokens": list(self.tokenizer.tokens), "training": training}
        if self.config.data.closed_vocabulary:
            metadata["vocabulary"] = sorted({word for utterance in self.train_set for word in utterance.text.split()})
        Bundle(self.model.state_dict(), metadata).save(self.best)


def share_cores(workers: int) -> None:
    """Leaves a core to each worker: threads that wait for one another on a taken core cost more than they bring."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, min(torch.get_num_threads(), cores - workers)))
