"""The configuration of a training run, as a recipe's train.toml holds it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ds2.data.augment import AugmentConfig
from ds2.data.epoch_plan import SamplingConfig
from ds2.data.pronunciation import TOKENS as PHONE_TOKENS
from ds2.model.acoustic import ModelConfig
from ds2.text import Units
from ds2.utils.config import require


@dataclass(frozen=True)
class DataConfig:
    """Which utterances."""

    train: tuple[Path, ...]  # manifests
    dev: Path  # manifest; decides which epoch's model is kept
    workers: int = 1  # processes that read and augment, for each process that trains
    units: Units = "characters"  # or "bigrams": half as many tokens, and so fewer frames are enough
    fraction: float = 1.0  # of the training set's hours that is used: how much more data would help, see power_law
    lexicon: Path | None = None  # pronunciations, as CMUdict's: what the second output layer, model.phones, learns
    closed_vocabulary: bool = False  # only words of the training set can be said: the decoder knows no others

    def __post_init__(self) -> None:
        require(self, "above 0 and at most 1", lambda share: 0 < share <= 1, "fraction")
        require(self, "0 or more", lambda count: count >= 0, "workers")
        if not self.train:
            raise ValueError("train must not be empty")


@dataclass(frozen=True)
class OptimizerConfig:
    """`sgd`: Nesterov SGD, the rate divided by `annealing` after each epoch (Deep Speech 2, section 3.3 and 4).

    `adamw`: AdamW, the rate up linearly over `warmup` of all steps, down to 0 as a cosine over the rest (one cycle).
    """

    name: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 3e-4  # the largest
    momentum: float = 0.99  # sgd
    annealing: float = 1.2  # sgd
    warmup: float = 0.1  # adamw: share of all steps
    weight_decay: float = 0.0
    clip_norm: float = 400.0  # the gradient is rescaled to this norm when it exceeds it
    surge: float = 0.0  # an update is left out whose gradient is this many times the mean norm so far; 0: none is
    label_smoothing: float = 0.0  # share of the loss that draws each frame's posteriors to the uniform ones
    phone_weight: float = 0.5  # of the CTC loss of the phones, beside that of the tokens
    average_decay: float = 0.0  # of the moving average of the weights that is validated and kept; 0: the weights are

    def __post_init__(self) -> None:
        require(self, "above 0", lambda value: value > 0, "learning_rate", "annealing", "clip_norm")
        require(self, "above 0 and below 1", lambda share: 0 < share < 1, "momentum")
        require(self, "from 0 to 1", lambda share: 0 <= share <= 1, "warmup", "label_smoothing")
        require(self, "at least 0 and below 1", lambda share: 0 <= share < 1, "average_decay")
        require(self, "0 or more", lambda value: value >= 0, "weight_decay", "surge", "phone_weight")


@dataclass(frozen=True)
class ParallelConfig:
    """How the processes that torchrun starts share a run; one process alone has no use for it.

    `synchronous`: every update is made of the whole minibatch. `mixed`: synchronous in groups of `group` ranks, whose
    weights are averaged every `average_every` updates. `asynchronous`: each rank updates the weights of a parameter
    server as it comes, from weights that are at most `staleness` of its updates ahead of the slowest rank's.
    """

    strategy: Literal["synchronous", "mixed", "asynchronous"] = "synchronous"
    synchronize_batch_norm: bool = True  # statistics of the whole minibatch: any number of ranks gives the same weights
    group: int = 1  # mixed: ranks, those of a node for instance
    average_every: int = 8  # mixed: updates
    staleness: int = 4  # asynchronous: updates
    compression: Literal["none", "float16", "bfloat16", "powersgd"] = "none"  # of gradients; bfloat16: on GPUs only

    def __post_init__(self) -> None:
        require(self, "at least 1", lambda count: count >= 1, "group", "average_every")
        require(self, "0 or more", lambda updates: updates >= 0, "staleness")


@dataclass(frozen=True)
class ComputeConfig:
    """How the arithmetic is done."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"  # the halves: autocast; float16 scales the loss
    compile: bool = False  # the network through torch.compile: slow to start
    recompute: bool = False  # activations of convolutions and recurrent layers again in the backward pass: less memory


@dataclass(frozen=True)
class StartConfig:
    """What training from a bundle may change; used with `start_from`."""

    new_alphabet: bool = False  # the corpus's tokens; outputs of tokens that the bundle knows are carried over
    freeze: tuple[str, ...] = ()  # parts that stay as they are: "convolutions", "recurrent.0", ...
    freeze_epochs: int = 0  # for how long; 0: to the end

    def __post_init__(self) -> None:
        require(self, "0 or more", lambda epochs: epochs >= 0, "freeze_epochs")


@dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    start: StartConfig = field(default_factory=StartConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    start_from: Path | None = None  # bundle whose weights, tokens and feature statistics training starts from
    epochs: int = 20
    batch_size: int = 32  # utterances of an update, over all ranks
    accumulate: int = 1  # pieces that a rank takes its part of a minibatch in: less memory
    sortagrad: bool = True  # first epoch by increasing duration
    growing: int = 0  # epochs until all utterances are heard, the shortest quarter first; 0: all from the beginning
    patience: int = 0  # epochs without a better dev WER after which training ends; 0: it goes on
    seed: int = 1
    checkpoint_every: int = 200  # minibatches
    observe: int = 4  # dev utterances that the network is watched on after each epoch, for `ds2 report`; 0: it is not
    profile: int = 0  # minibatches of the last epoch whose time line is written, timeline.rank*.json
    checkpoint_minutes: float = 0.0  # a checkpoint at least that often as well; 0: none by the clock

    def __post_init__(self) -> None:
        if self.sampling.weights and len(self.sampling.weights) != len(self.data.train):
            raise ValueError(
                f"sampling.weights has {len(self.sampling.weights)} values for {len(self.data.train)} manifests"
            )
        if (self.data.lexicon is None) != (self.model.phones == 0):
            raise ValueError("data.lexicon and model.phones come together")
        if self.model.phones not in (0, len(PHONE_TOKENS)):
            raise ValueError(f"model.phones = {self.model.phones} must be {len(PHONE_TOKENS)}, the phones of CMUdict")
        require(self, "at least 1", lambda count: count >= 1, "epochs", "batch_size", "checkpoint_every", "accumulate")
        counts = ("growing", "patience", "seed", "observe", "profile", "checkpoint_minutes")
        require(self, "0 or more", lambda count: count >= 0, *counts)
        if self.parallel.strategy == "asynchronous":
            if self.compute.precision == "float16":
                raise ValueError("compute.precision = float16 does not go with parallel.strategy = asynchronous")
            if self.optimizer.average_decay:
                raise ValueError("optimizer.average_decay does not go with parallel.strategy = asynchronous")
