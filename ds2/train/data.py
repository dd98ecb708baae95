"""Training data: the manifests, their alphabet, batches in order, and the statistics of the features."""

import contextlib
import functools
import hashlib
import itertools
import logging
import math
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.autograd.profiler import record_function
from torch.utils.data import DataLoader

from ds2.audio.augment import Augmenter
from ds2.bundle import Bundle
from ds2.data.columnar import Joined, durations, values
from ds2.data.compiled import SUFFIX, compile_manifest
from ds2.data.dataset import Batch, SpeechDataset, collate
from ds2.data.manifest import check_characters, read_manifest
from ds2.data.prefetch import PrefetchingSampler
from ds2.data.sampler import Curriculum, Share, SortaGradSampler, Sources, part_of
from ds2.data.shards import shards_of
from ds2.data.utterance import Utterance
from ds2.model.acoustic import AcousticModel
from ds2.model.frontend import Frontend
from ds2.model.normalization import keep_steps
from ds2.text import Tokenizer
from ds2.train.config import TrainConfig
from ds2.train.distributed.ranks import Ranks
from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines
from ds2.utils.object_storage import fetched, url_of

LARGE_BYTES = 100 << 20  # of a manifest: some 700,000 lines, which as objects take a gigabyte in every rank
SAMPLED_TEXTS = 50_000
STATISTICS_UTTERANCES = 200  # that the mean and deviation of the features are computed from
MOST_STEPS = 2000  # of a BN-LSTM's statistics: later steps share the last ones

logger = logging.getLogger(__name__)

Loader = DataLoader[Batch]


class TrainingData:
    """The training and dev sets of a configuration, and the part of them that this rank takes."""

    def __init__(self, config: TrainConfig, ranks: Ranks, start: Bundle | None):
        """Reads the manifests. The alphabet is that of `data.alphabet`, or of the bundle that training starts from.

        Raises:
            InputError: bad manifests, or characters that are not in the alphabet.
        """
        self.config = config
        self.ranks = ranks
        # A fraction of a manifest is a view of it; several manifests are joined without a copy.
        whole = [opened(path, ranks) for path in config.data.train]
        manifests = [part_of(manifest, config.data.fraction) for manifest in whole]
        self.origin = _origin(start) if start is not None else None
        self.train = manifests[0] if len(manifests) == 1 else Joined(manifests)
        self.dev = read_manifest(config.data.dev)
        # A bundle's output layer has its tokens: texts must fit them, unless the layer is made anew or extended.
        if start is None or config.start.new_alphabet:
            # A fraction has the same alphabet as the whole.
            spelt = [_texts(path, ranks) for path in config.data.alphabet] or [values(Joined(whole), "text")]
            self.tokenizer = Tokenizer.from_texts(itertools.chain.from_iterable(spelt), config.data.units)
            if config.data.alphabet:
                check_characters(self.train, self.tokenizer)
        else:
            self.tokenizer = Tokenizer(start.tokens)
            if config.start.add_letters:
                texts = values(Joined([*whole, self.dev]), "text")
                more = set[str]().union(*map(self.tokenizer.unknown, texts))
                self.tokenizer = Tokenizer([*start.tokens, *sorted(more)])
            check_characters(self.train, self.tokenizer)
        check_characters(self.dev, self.tokenizer)
        # All ranks draw the same minibatches, and each takes its part; dedicated parameter servers take none.
        idle = config.parallel.dedicated_ranks if ranks.size > 1 else 0
        share = Share(ranks.number - idle, max(1, ranks.size - idle), config.accumulate)
        shards, self.archives = shards_of(self.train)
        self.sampler = SortaGradSampler(
            durations(self.train),
            config.batch_size,
            config.seed,
            Curriculum(config.sortagrad, config.curriculum_epochs),
            share,
            config.sampling,
            Sources([len(manifest) for manifest in manifests], shards),
        )

    @property
    def hours(self) -> float:
        """Hours of the training set."""
        return float(np.cumsum(self.sampler.durations)[-1]) / 3600

    @functools.cached_property
    def digest_of_texts(self) -> str:
        """SHA-256 of the texts of the training and dev sets, in order."""
        digest = hashlib.sha256()
        for text in values(Joined([self.train, self.dev]), "text"):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()

    def set_steps(self, model: AcousticModel) -> None:
        """Gives a BN-LSTM separate statistics for each frame of the longest training utterance, MOST_STEPS at most."""
        longest = float(self.sampler.durations.max())
        keep_steps(model, min(MOST_STEPS, math.ceil(longest / self.config.model.frame_seconds)))

    def batches_of_run(self) -> int:
        """Number of minibatches of all epochs."""
        return sum(self.sampler.count(epoch) for epoch in range(self.config.epochs))

    def train_loader(self) -> Loader:
        """This rank's microbatches of the minibatches of the epoch given to `sampler.begin`, augmented."""
        rate = self.config.model.frontend.sample_rate
        augmenter = Augmenter(self.config.augment, rate, self.config.seed)
        remote = any(archive is not None and url_of(archive) for archive in self.archives)
        sampler = PrefetchingSampler(self.sampler, self.archives) if remote else self.sampler
        return self._loader(SpeechDataset(self.train, self.tokenizer, rate, augmenter), sampler, keep=True)

    def plain_loader(self, utterances: Sequence[Utterance]) -> Loader:
        """Batches of any utterances without augmentation, the shortest first."""
        size = -(-self.config.batch_size // (self.ranks.size * self.config.accumulate))
        dataset = SpeechDataset(utterances, self.tokenizer, self.config.model.frontend.sample_rate)
        return self._loader(dataset, SortaGradSampler(durations(utterances), size, self.config.seed), keep=False)

    def dev_loader(self) -> Loader:
        """This rank's part of the dev set."""
        return self.plain_loader(self.dev[self.ranks.number :: self.ranks.size])

    def observed(self) -> Batch:
        """`config.observe` dev utterances, evenly spaced in duration, the longest first."""
        few = sorted(self.dev, key=lambda utterance: -utterance.duration)
        few = few[:: max(1, len(few) // max(1, self.config.observe))][: self.config.observe]
        dataset = SpeechDataset(few, self.tokenizer, self.config.model.frontend.sample_rate)
        return collate([dataset[0, index] for index in range(len(few))])

    def sample_of_texts(self) -> Iterator[str]:
        """Up to `SAMPLED_TEXTS` texts of the training set, evenly spaced."""
        return (utterance.text for utterance in self.train[:: 1 + len(self.train) // SAMPLED_TEXTS])

    def measure_features(self, frontend: Frontend) -> None:
        """Sets the front end's mean and deviation of every frequency bin, from evenly spaced training utterances.

        Raises:
            InputError: none of these utterances can be read.
        """
        every = max(1, len(self.train) // STATISTICS_UTTERANCES)
        frames, batches = [], [batch for batch in self.plain_loader(self.train[::every]) if batch.utterances]
        if not batches:
            raise InputError(f"{self.config.data.train[0]}: none of the utterances tried can be read")
        if frontend.config.power == "adaptive":
            energy = sum(float(batch.samples.square().sum()) for batch in batches)
            frontend.set_prior(energy / sum(int(batch.sample_lengths.sum()) for batch in batches))
        for batch in batches:
            sound = batch.samples.to(frontend.mean.device), batch.sample_lengths.to(frontend.mean.device)
            features, lengths = frontend.log_spectrogram(*sound)
            frames += [row[:, :length] for row, length in zip(features, lengths.tolist(), strict=True)]
        mean = torch.cat(frames, dim=1).mean(1)
        if frontend.config.mean != "training":
            frames = [row - row.mean(1, keepdim=True) for row in frames]
        frontend.set_statistics(mean, torch.cat(frames, dim=1).std(1))

    def _loader(self, dataset: SpeechDataset, sampler: SortaGradSampler | PrefetchingSampler, keep: bool) -> Loader:
        workers = self.config.data.workers
        return DataLoader(
            dataset,  # type: ignore[arg-type]
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=keep and workers > 0,
            worker_init_fn=_ignore_signals,
            generator=torch.Generator(),  # it draws a number at its start: not from the run's random state
        )


def _texts(path: Path, ranks: Ranks) -> Iterable[str]:
    """The texts of a manifest, or the lines of a text file."""
    return (line for _, line in numbered_lines(path)) if path.suffix == ".txt" else values(opened(path, ranks), "text")


def _origin(start: Bundle) -> dict[str, Any]:
    """What the bundle that training starts from is, and what it had learned from: its licences go on to hold."""
    origin: dict[str, Any] = {"model": Path(start.name).stem}
    return origin | {key: start.training[key] for key in ("corpus", "hours", "origin") if key in start.training}


def opened(path: Path, ranks: Ranks) -> Sequence[Utterance]:
    """The utterances of a manifest; the first rank compiles a large one beside it, once for all runs and ranks.

    Raises:
        InputError: as `read_manifest`.
    """
    path = fetched(path)
    target = path.with_name(f".{path.name}{SUFFIX}")
    large = path.suffix != SUFFIX and path.is_file() and path.stat().st_size >= LARGE_BYTES
    if not large or not os.access(path.parent, os.W_OK) or find_spec("pyarrow") is None:
        return read_manifest(path)
    if ranks.first and not (target.exists() and target.stat().st_mtime_ns > path.stat().st_mtime_ns):
        logger.info("compiling %s", path)
        compile_manifest(path, target)
    ranks.barrier()
    return read_manifest(target if target.exists() else path)  # another machine has a mirror of its own


def _ignore_signals(worker: int) -> None:
    """Signals go to all processes of a job; the trainer needs the workers until the checkpoint is written."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def ending_workers(loader: Loader) -> Iterator[Loader]:
    """Ends the loader's processes with the context. Python would end them by SIGTERM, which they ignore."""
    try:
        yield loader
    finally:
        if loader.num_workers and loader._iterator is not None:
            loader._iterator._shutdown_workers()  # type: ignore[attr-defined]


def minibatches(loader: Loader, microbatches: int) -> Iterator[list[Batch]]:
    """The microbatches of each minibatch in a list."""
    batches = iter(loader)
    while True:
        with record_function("ds2: data"):
            minibatch = list(itertools.islice(batches, microbatches))
        if not minibatch:
            return
        yield minibatch
