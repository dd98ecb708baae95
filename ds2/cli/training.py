"""ds2 train, average, bench-train: how one gets a model."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from ds2.utils.errors import InputError
from ds2.utils.extras import need

Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="SECTION.KEY=VALUE")]


def train(
    config: Positional[Path], output: Path, set_: Settings = (), fraction: float | None = None, device: str = "auto"
) -> int:
    """Train a model by a recipe's TOML file; run the same command again to resume.

    Example: ds2 train recipes/digits/train.toml --output runs/digits --set epochs=4

    On several processors or machines: torchrun --nproc-per-node 8 --no-python ds2 train ... with the same arguments.

    Args:
        config: The recipe's train.toml.
        output: Folder for best.safetensors, metrics.jsonl, curves.png and the checkpoint.
        set_: Overrides a key of the configuration; may be repeated.
        fraction: Of the training set's hours to train on, for a study of how much more data would help.
        device: auto, cpu or cuda.
    """
    from ds2.recognition.recognizer import choose_device
    from ds2.train.config import TrainConfig
    from ds2.train.distributed.ranks import join_ranks
    from ds2.train.signals import TrainingStopped
    from ds2.train.trainer import Trainer
    from ds2.utils.config import load_config
    from ds2.utils.logs import shown_log

    if fraction is not None:
        set_ = (*set_, f"data.fraction={fraction}")
    with shown_log(), join_ranks(choose_device(device)) as (ranks, own_device):
        try:
            best = Trainer(load_config(TrainConfig, config, set_), output, own_device, ranks).run()
        except TrainingStopped as stopped:
            if ranks.first:
                print(f"ds2: {stopped}", file=sys.stderr)
            return 128 + stopped.number  # as shells count it
        if ranks.first:
            print(best)
    return 0


def bench_train(
    config: Positional[Path],
    output: Path,
    strategies: tuple[Literal["synchronous", "mixed", "asynchronous"], ...] = ("synchronous", "mixed", "asynchronous"),
    ranks: tuple[int, ...] = (1, 2),
    target_loss: float | None = None,
    set_: Settings = (),
    device: str = "auto",
) -> int:
    """Train with one process and with several, by each strategy: a table of speed and result, and a time line.

    Example: ds2 bench-train recipes/digits/comparison.toml --output runs/scaling --ranks 1 2

    Args:
        config: A recipe's train.toml.
        output: Folder for the runs, scaling.md and timeline.png; finished runs are not trained again.
        strategies: synchronous, mixed, asynchronous.
        ranks: Numbers of processes on this machine.
        target_loss: Dev loss whose time counts; by default the one that all runs reach.
        set_: Overrides a key of the configuration; may be repeated.
        device: auto, cpu or cuda.
    """
    from ds2.recognition.recognizer import choose_device
    from ds2.train.distributed.bench import bench, write_results
    from ds2.utils.logs import shown_log

    need("matplotlib")
    if min(ranks, default=1) < 1:
        raise InputError(f"--ranks {min(ranks)}: must be at least 1")
    with shown_log():
        runs = bench(config, output, strategies, ranks, set_, choose_device(device))
    print(write_results(output, runs, target_loss))
    return 0


def find_rate(
    config: Positional[Path], output: Path, batches: int = 100, set_: Settings = (), device: str = "auto"
) -> int:
    """Suggest optimizer.learning_rate: a short training whose rate grows until the loss runs away.

    Example: ds2 find-rate recipes/digits/comparison.toml --output runs/rate

    Args:
        config: The recipe's train.toml.
        output: Folder for rates.png.
        batches: Minibatches to train, at the most.
        set_: Overrides a key of the configuration; may be repeated.
        device: auto, cpu or cuda.
    """
    import tempfile

    from ds2.recognition.recognizer import choose_device
    from ds2.train.config import TrainConfig
    from ds2.train.plots import draw_rates
    from ds2.train.rate_finder import FEWEST
    from ds2.train.rate_finder import find_rate as find
    from ds2.train.trainer import Trainer
    from ds2.utils.config import load_config
    from ds2.utils.files import make_folder

    need("matplotlib")
    if batches < FEWEST:
        raise InputError(f"--batches {batches}: must be at least {FEWEST}")
    make_folder(output)
    with tempfile.TemporaryDirectory() as folder:
        test = find(Trainer(load_config(TrainConfig, config, set_), folder, choose_device(device)), batches)
    print(f"optimizer.learning_rate = {test.suggestion:.1e}")
    draw_rates(output / "rates.png", test.rates, test.losses, test.suggestion)
    return 0


def tune(study: Positional[Path], output: Path) -> int:
    """Search for a better configuration: trials side by side, those worse than the median ended early.

    Example: ds2 tune recipes/digits/study.toml --output runs/study

    Killed and started again, the search goes on, inside each training too.

    Args:
        study: TOML: config, method, trials, devices, and the [space] of any keys of the configuration.
        output: Folder for the trials, results.md, best.toml and importance.png.
    """
    from ds2.train.search_results import write_results
    from ds2.train.study import read_study
    from ds2.train.tune import Tuner

    need("matplotlib")
    tuner = Tuner(read_study(study), output)
    tuner.run()
    print(write_results(tuner.study, tuner.plan.config, output))
    return 0


def report(run: Positional[Path], output: Path | None = None) -> int:
    """One HTML file of a training run: curves, alignments, worst errors, what happens inside, data, configuration.

    Example: ds2 report runs/digits

    Args:
        run: The --output folder of ds2 train, finished or not.
        output: The file to write; by default report.html in that folder.
    """
    from ds2.train.report import write_report
    from ds2.utils.files import check_writable

    check_writable(output)
    target = output or run / "report.html"
    write_report(run, target)
    print(target)
    return 0


def average(bundles: Positional[tuple[Path, ...]], output: Path) -> int:
    """Average the weights of models that were trained from the same start, with other seeds or data.

    Example: ds2 average runs/seed1/best.safetensors runs/seed2/best.safetensors --output average.safetensors

    Args:
        bundles: Two or more bundles of one configuration.
        output: The bundle to write.
    """
    from ds2.train.average import average as mean

    mean(bundles).save(output)
    print(output)
    return 0
