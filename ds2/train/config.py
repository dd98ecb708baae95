"""The configuration of a training run, as a recipe's train.toml holds it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ds2.data.augment import AugmentConfig
from ds2.model.acoustic import ModelConfig
from ds2.text import Units


@dataclass(frozen=True)
class DataConfig:
    """Which utterances."""

    train: tuple[Path, ...]  # manifests
    dev: Path  # manifest; decides which epoch's model is kept
    workers: int = 1  # processes that read and augment
    units: Units = "characters"  # or "bigrams": half as many tokens, and so fewer frames are enough
    fraction: float = 1.0  # of the training set's hours that is used: how much more data would help, see power_law
    closed_vocabulary: bool = False  # only words of the training set can be said: the decoder knows no others

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction = {self.fraction} must be above 0 and at most 1")


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


@dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    start_from: Path | None = None  # bundle whose weights, tokens and feature statistics training starts from
    epochs: int = 20
    batch_size: int = 32  # utterances
    sortagrad: bool = True  # first epoch by increasing duration
    seed: int = 1
    checkpoint_every: int = 200  # batches

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
