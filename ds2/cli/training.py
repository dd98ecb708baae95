"""ds2 train, average: how one gets a model."""

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="SECTION.KEY=VALUE")]


def train(config: Positional[Path], output: Path, set_: Settings = (), device: str = "auto") -> int:
    """Train a model by a recipe's TOML file; run the same command again to resume.

    Example: ds2 train recipes/digits/train.toml --output runs/digits --set epochs=4

    On several processors or machines: torchrun --nproc-per-node 8 --no-python ds2 train ... with the same arguments.

    Args:
        config: The recipe's train.toml.
        output: Folder for best.safetensors, metrics.jsonl, curves.png and the checkpoint.
        set_: Overrides a key of the configuration; may be repeated.
        device: auto, cpu or cuda.
    """
    from ds2.config import load_config
    from ds2.recognizer import choose_device
    from ds2.train.config import TrainConfig
    from ds2.train.ranks import join_ranks
    from ds2.train.trainer import Trainer

    with join_ranks(choose_device(device)) as (ranks, own_device):
        best = Trainer(load_config(TrainConfig, config, set_), output, own_device, ranks).run()
        if ranks.first:
            print(best)
    return 0


def average(bundles: Positional[tuple[Path, ...]], output: Path) -> int:
    """Average the weights of models that were trained from the same start, with other seeds or data.

    Example: ds2 average runs/seed1/best.safetensors runs/seed2/best.safetensors --output average.safetensors

    Args:
        bundles: Two or more bundles of one configuration.
        output: The bundle to write.
    """
    from ds2.average import average as mean

    mean(bundles).save(output)
    print(output)
    return 0
