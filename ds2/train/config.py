"""The configuration of a training run, as a recipe's train.toml holds it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ds2.audio.augment import AugmentConfig
from ds2.data.corpus_sampling import SamplingConfig
from ds2.data.phone_sets import phone_set
from ds2.model.config import ModelConfig
from ds2.text import Units
from ds2.utils.config import require

SERVED = ("asynchronous", "mixed", "backup-workers")  # strategies with parameter servers


@dataclass(frozen=True)
class DataConfig:
    """The training set, the dev set and the text units."""

    train: tuple[Path, ...]  # manifests
    dev: Path  # manifest; the epoch with the lowest dev WER is kept, with phones the lowest PER
    workers: int = 1  # processes that read and augment, for each process that trains
    alphabet: tuple[Path, ...] = ()  # manifests or texts (.txt) that give the tokens; by default the texts of train
    units: Units = "characters"  # or "bigrams": half as many tokens, so fewer output frames are enough
    fraction: float = 1.0  # of the training set's hours to use: shows how much more data would help, see power_law
    lexicon: Path | None = None  # pronunciations as in CMUdict; the second output layer, model.phones, learns them
    closed_vocabulary: bool = False  # the decoder finds only the words of the training set

    def __post_init__(self) -> None:
        require(self, "above 0 and at most 1", lambda fraction: 0 < fraction <= 1, "fraction")
        require(self, "0 or more", lambda count: count >= 0, "workers")
        if not self.train:
            raise ValueError("train must not be empty")


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimiser, its schedule, and its safeguards.

    `sgd`: Nesterov SGD, the rate divided by `annealing` after each epoch (Deep Speech 2, sections 3.3 and 4).
    `adamw`: AdamW, the rate rises linearly over `warmup` of all updates and falls to 0 as a cosine (one cycle).
    `muon`: Muon for the matrices of hidden layers, AdamW for the rest, on the schedule of `adamw`.
    """

    name: Literal["sgd", "adamw", "muon"] = "sgd"  # see above
    learning_rate: float = 3e-4  # the highest learning rate of the schedule
    momentum: float = 0.99  # sgd
    annealing: float = 1.2  # sgd: divisor of the learning rate after each epoch
    warmup: float = 0.1  # adamw, muon: fraction of all updates
    weight_decay: float = 0.0  # factor, for each unit of the learning rate
    clip_norm: float = 400.0  # largest norm of the gradient; a longer gradient is scaled down to it
    gradient_spike: float = 0.0  # times the mean norm: above it an update is skipped; 0: never
    label_smoothing: float = 0.0  # weight, 0 to 1, of the divergence from uniform posteriors within the loss
    phone_weight: float = 0.5  # weight of the loss of the phones, next to that of the tokens
    phone_loss: Literal["ctc", "ctc-crf"] = "ctc"  # ctc-crf: whole sequences of phones against each other, by a trigram
    ema_decay: float = 0.0  # for each update; the averaged weights are kept; 0: no average

    def __post_init__(self) -> None:
        require(self, "above 0", lambda value: value > 0, "learning_rate", "annealing", "clip_norm")
        require(self, "above 0 and below 1", lambda factor: 0 < factor < 1, "momentum")
        require(self, "from 0 to 1", lambda fraction: 0 <= fraction <= 1, "warmup", "label_smoothing")
        require(self, "at least 0 and below 1", lambda factor: 0 <= factor < 1, "ema_decay")
        require(self, "0 or more", lambda value: value >= 0, "weight_decay", "gradient_spike", "phone_weight")


@dataclass(frozen=True)
class ParallelConfig:
    """How the processes (ranks) that torchrun starts share a run; a single process ignores it.

    `synchronous`: every update uses the whole minibatch. `local-sgd`: synchronous in groups of `group` ranks, whose
    weights are averaged every `average_every` updates. `asynchronous`: each rank sends its gradients to the parameter
    servers when they are ready. `mixed`: so does each group of `group` ranks, with the gradient of all its ranks.
    `backup-workers`: every update uses the minibatch without the parts of the `backups` slowest ranks.
    """

    # See above.
    strategy: Literal["synchronous", "local-sgd", "asynchronous", "mixed", "backup-workers"] = "synchronous"
    synchronize_batch_norm: bool = True  # statistics of the whole minibatch: any number of ranks gives the same weights
    group: int = 1  # local-sgd, mixed: ranks in a group, for instance those of one machine
    average_every: int = 8  # local-sgd: updates between two averages
    servers: int = 0  # asynchronous, mixed: so many first ranks hold parts of the weights; 0: asynchronous has one
    dedicated: bool = False  # the ranks that are servers take no utterances
    backups: int = 1  # backup-workers: so many of the gradients of an update are not waited for
    staleness: int = 4  # asynchronous, mixed: largest lead of a group, in updates
    compression: Literal["none", "float16", "bfloat16", "powersgd"] = "none"  # of gradients; bfloat16: only on GPUs

    def __post_init__(self) -> None:
        require(self, "at least 1", lambda count: count >= 1, "group", "average_every")
        require(self, "0 or more", lambda count: count >= 0, "staleness", "servers", "backups")
        if self.strategy == "backup-workers" and self.servers > 1:
            raise ValueError("backup-workers have one server: it alone knows which gradients come first")
        if self.strategy == "mixed" and not self.servers:  # of version 0.1, maybe
            raise ValueError(
                'strategy = "mixed" needs parallel.servers; the averaging of weights that was called mixed in version '
                '0.1 is strategy = "local-sgd"'
            )

    @property
    def workers(self) -> int:
        """Ranks that make one gradient for the parameter servers."""
        return self.group if self.strategy == "mixed" else 1

    @property
    def served_by(self) -> int:
        """Ranks that are parameter servers."""
        return max(1, self.servers)

    @property
    def dedicated_ranks(self) -> int:
        """First ranks that take no utterances."""
        return self.served_by if self.dedicated and self.strategy in SERVED else 0

    def groups(self, ranks: int) -> int:
        """Updates that so many ranks make of a minibatch."""
        one = self.strategy not in ("asynchronous", "mixed")
        return 1 if one else max(1, (ranks - self.dedicated_ranks) // self.workers)


@dataclass(frozen=True)
class ComputeConfig:
    """The precision, compilation and memory use of the arithmetic."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"  # the halves: autocast; float16 scales the loss
    compile: bool = False  # torch.compile of the network: slow to start
    recompute: bool = False  # recompute activations in the backward pass: less memory, more time


@dataclass(frozen=True)
class StartConfig:
    """Permitted differences from the bundle that training starts from; used with `start_from`."""

    new_alphabet: bool = False  # use the training set's tokens; keep the output rows of tokens that the bundle knows
    add_letters: bool = False  # keep the bundle's tokens, and add the letters of train and dev that it lacks
    freeze: tuple[str, ...] = ()  # parts that are not trained: "convolutions", "recurrent.0", ...
    freeze_epochs: int = 0  # epochs for which they stay frozen; 0: all

    def __post_init__(self) -> None:
        require(self, "0 or more", lambda epochs: epochs >= 0, "freeze_epochs")


@dataclass(frozen=True)
class TrainConfig:
    """The configuration of a whole run."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    start: StartConfig = field(default_factory=StartConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    start_from: Path | None = None  # bundle that gives weights, tokens and feature statistics to start from
    epochs: int = 20  # passes over the training set, at most
    batch_size: int = 32  # utterances of an update, over all ranks
    accumulate: int = 1  # microbatches that a rank divides its part of a minibatch into: less memory
    sortagrad: bool = True  # first epoch by increasing duration
    curriculum_epochs: int = 0  # from the shortest quarter to all utterances; 0: all from the start
    patience: int = 0  # epochs without a better dev WER after which training ends; 0: it never ends early
    seed: int = 1  # of the first weights, the order of utterances and the augmentation: equal seeds, equal weights
    observe: int = 4  # dev utterances that `ds2 report` shows after each epoch; 0: none
    profile: int = 0  # minibatches of the last epoch that are profiled into timeline.rank*.json
    checkpoint_minutes: float = 5.0  # between checkpoints; 0: at the end of epochs alone

    def __post_init__(self) -> None:
        if self.sampling.weights and len(self.sampling.weights) != len(self.data.train):
            raise ValueError(
                f"sampling.weights has {len(self.sampling.weights)} values for {len(self.data.train)} manifests"
            )
        if (self.data.lexicon is None) != (self.model.phones == 0):
            raise ValueError("data.lexicon and model.phones come together")
        if self.model.biphones and self.optimizer.phone_loss != "ctc-crf" and self.start_from is None:
            raise ValueError("model.biphones are learnt by optimizer.phone_loss = ctc-crf alone")
        if self.model.phones:
            phone_set(self.model.phones)
        require(self, "at least 1", lambda count: count >= 1, "epochs", "batch_size", "accumulate")
        counts = ("curriculum_epochs", "patience", "seed", "observe", "profile", "checkpoint_minutes")
        require(self, "0 or more", lambda count: count >= 0, *counts)
        strategy = self.parallel.strategy
        if strategy in SERVED and self.compute.precision == "float16":
            raise ValueError(f"compute.precision = float16 cannot be used with parallel.strategy = {strategy}")
        if strategy in SERVED and self.optimizer.ema_decay:
            raise ValueError(f"optimizer.ema_decay cannot be used with parallel.strategy = {strategy}")
