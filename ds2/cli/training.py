"""ds2 train, report, tune, find-rate, average, bench-train: training models."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from ds2.cli.options import NO_DEFAULT, Device, Maybe, OptionalOutput, Output, Paths, Settings
from ds2.cli.overwriting import check_bundle_name
from ds2.utils.errors import InputError, ParameterError, counted
from ds2.utils.extras import need

if TYPE_CHECKING:
    from ds2.train.config import TrainConfig

FEW = 50  # utterances: an error rate on fewer says little
MOST_BATCHES = 1_000_000  # of a range test, which needs a hundred
MOST_RANKS = 1024  # processes on one machine
STALE = (
    "\nds2: the confidence of words, and what is dropped as no speech, is still that of {start}: "
    "ds2 calibrate OTHERS.jsonl --model {tuned}"
)


def train_command(
    config: Positional[Path],
    output: Output,
    fine_tune: Maybe[str] = None,
    set_: Settings = (),
    fraction: Maybe[float] = None,
    device: Device = "auto",
) -> int:
    """Train a model from a recipe, or fine-tune one on a manifest.

    Run the same command again to resume; with more epochs, a finished training continues.

    Example: ds2 train recipes/digits/train.toml --output runs/digits --set epochs=4

    On several processors or machines: torchrun --nproc-per-node 8 --no-python ds2 train ... with the same arguments;
    on Slurm: srun --ntasks 8 ds2 train ...

    Args:
        config: The recipe's train.toml; with --fine-tune a manifest of recordings and their texts (.jsonl).
        output: Folder for best.safetensors, metrics.jsonl, curves.png and the checkpoint.
        fine_tune: Trained model, by path or name, to train on the manifest; writes fine-tuned.safetensors.
        fraction: Fraction of the training set's hours to train on, to study how much more data would help.
    """
    from ds2.train.fine_tune import fine_tuning, save_fine_tuned

    set_ = set_ if fraction is None else (*set_, f"data.fraction={fraction}")
    if fine_tune is None:
        return run_training(lambda: _read_recipe(config, set_), output, device, lambda best: best)

    def finished(_: Path) -> Path:
        tuned = save_fine_tuned(fine_tune, config, output)
        print(_before_and_after(fine_tune, tuned, output, device), file=sys.stderr)
        return tuned

    return run_training(lambda: fine_tuning(fine_tune, config, output, set_), output, device, finished)


def run_training(
    configuration: "Callable[[], TrainConfig]", output: Path, device: str, finished: Callable[[Path], Path]
) -> int:
    """Trains in the output folder, and prints the bundle to use.

    Args:
        finished: called with the bundle of the best epoch; returns the one to use.

    Returns:
        The exit code.
    """
    from ds2.train.best_epoch import best_line
    from ds2.train.distributed.ranks import join_ranks
    from ds2.train.run_folder import read_start
    from ds2.train.signals import TrainingStopped
    from ds2.train.trainer import Trainer
    from ds2.utils.devices import choose_device
    from ds2.utils.logs import shown_log

    with shown_log(), join_ranks(choose_device(device)) as (ranks, own_device):
        try:
            trainer = Trainer(configuration(), output, own_device, ranks)
            best = trainer.run()
        except TrainingStopped as stopped:
            if ranks.first:
                print(f"ds2: {stopped}", file=sys.stderr)
            return 128 + stopped.number  # as shells count it
        if ranks.first:
            print(f"ds2: {best_line(trainer.state.history, read_start(output))}", file=sys.stderr)
            print(finished(best))
    return 0


def _read_recipe(config: Path, settings: Settings) -> "TrainConfig":
    """The configuration of a recipe; refuses a recording or a manifest in its place."""
    from ds2.audio.files import SUFFIXES
    from ds2.train.config import TrainConfig
    from ds2.utils.config import load_config

    if config.suffix.lower() in (*SUFFIXES, ".jsonl"):
        kind = "manifest" if config.suffix.lower() == ".jsonl" else "recording"
        raise InputError(f"{config}: is a {kind}; name a recipe's train.toml, or --fine-tune MODEL and a manifest")
    return load_config(TrainConfig, config, settings)


def _before_and_after(start: str, tuned: Path, run: Path, device: str) -> str:
    """Lines on what fine-tuning brought, the error rate of both models, each with its whole search, which the run's
    report shows as well; and on what the new one still has of the old."""
    from ds2.bundle import read_record
    from ds2.data.manifest import read_manifest
    from ds2.recognition.evaluate import evaluate
    from ds2.recognition.recognizer import Recognizer
    from ds2.train.fine_tune import write_with_search

    dev = run / "dev.jsonl"
    utterances = read_manifest(dev)
    old, new = (evaluate(Recognizer.load(model, device), utterances) for model in (start, tuned))
    before, after = old.words.rate, new.words.rate
    texts = {str(each.span): text for each, text in zip(new.utterances, new.hypotheses, strict=True)}
    write_with_search(run, start, before, after, texts)
    others = "so few say little" if len(utterances) < FEW else "other speech it may have forgotten"
    brought = (
        f"ds2: {dev}, {counted(len(utterances), 'utterance')}: WER {before:.1%} before, {after:.1%} after; {others}"
    )
    brought += ", compare both by ds2 eval on others"
    if after > before:
        brought += f"; if {start} is better there too, keep it, or try fewer epochs"
    stale = STALE.format(start=start, tuned=tuned) if read_record(tuned).confidence is not None else ""
    return brought + stale


@dataclass(frozen=True)
class ContestOptions:
    """Which ways to train are compared.

    Attributes:
        strategies: synchronous, local-sgd, asynchronous, mixed, backup-workers; mixed needs --servers.
        ranks: Numbers of processes on this machine.
        groups: Ranks of a group, for local-sgd and mixed; by default as configured.
        servers: Numbers of parameter servers, for asynchronous and mixed; by default as configured.
        seeds: Train with each seed, and show means and deviations; by default that of the configuration.
    """

    strategies: tuple[Literal["synchronous", "local-sgd", "asynchronous", "mixed", "backup-workers"], ...] = (
        "synchronous",
        "local-sgd",
        "asynchronous",
    )
    ranks: tuple[int, ...] = (1, 2)
    groups: Annotated[tuple[int, ...], NO_DEFAULT] = ()
    servers: Annotated[tuple[int, ...], NO_DEFAULT] = ()
    seeds: Annotated[tuple[int, ...], NO_DEFAULT] = ()

    def __post_init__(self) -> None:
        for option in ("ranks", "groups", "servers"):
            for count in getattr(self, option):
                if not 1 <= count <= MOST_RANKS:
                    raise ParameterError(option, f"must be from 1 to {MOST_RANKS:,}, got {count}")


def bench_train_command(
    config: Positional[Path],
    output: Output,
    contest: Annotated[ContestOptions, tyro.conf.arg(name="")],
    target_loss: Maybe[float] = None,
    set_: Settings = (),
    device: Device = "auto",
) -> int:
    """Compare strategies of training with several processes.

    It prints a table of speed and error rate, and draws a time line. Each strategy is trained with each number of
    ranks, size of group and number of servers.

    Example: ds2 bench-train recipes/digits/comparison.toml --output runs/scaling --ranks 1 2 --seeds 1 2 3

    Args:
        config: A recipe's train.toml.
        output: Folder for the runs, scaling.md and timeline.png; finished runs are not repeated.
        target_loss: Dev loss up to which the time is measured; by default the lowest that all runs reach.
    """
    from ds2.train.distributed.bench import bench, contenders, write_scaling
    from ds2.utils.devices import choose_device
    from ds2.utils.logs import shown_log

    need("matplotlib")
    plan = list(contenders(contest.strategies, contest.ranks, contest.groups, contest.servers))
    with shown_log():
        results = bench(config, output, plan, contest.seeds, set_, choose_device(device))
    print(write_scaling(output, results, target_loss))
    return 0


def find_rate_command(
    config: Positional[Path], output: Output, batches: int = 100, set_: Settings = (), device: Device = "auto"
) -> int:
    """Suggest a learning rate from a short training.

    The rate grows until the loss diverges.

    Example: ds2 find-rate recipes/digits/comparison.toml --output runs/rate

    Args:
        config: The recipe's train.toml.
        output: Folder for rates.png.
        batches: Greatest number of minibatches.
    """
    import tempfile

    from ds2.train.config import TrainConfig
    from ds2.train.plots import draw_rates
    from ds2.train.rate_finder import FEWEST, find_rate
    from ds2.train.trainer import Trainer
    from ds2.utils.config import load_config
    from ds2.utils.devices import choose_device
    from ds2.utils.files import make_folder

    need("matplotlib")
    if not FEWEST <= batches <= MOST_BATCHES:
        raise ParameterError("batches", f"must be at least {FEWEST} and at most {MOST_BATCHES:,}, got {batches}")
    make_folder(output)
    with tempfile.TemporaryDirectory() as folder:
        test = find_rate(Trainer(load_config(TrainConfig, config, set_), folder, choose_device(device)), batches)
    print(f"optimizer.learning_rate = {test.suggestion:.1e}")
    draw_rates(output / "rates.png", test.rates, test.losses, test.suggestion)
    return 0


def tune_command(study: Positional[Path], output: Output) -> int:
    """Search for a better configuration with trials in parallel.

    Trials worse than the median end early.

    Example: ds2 tune recipes/digits/study.toml --output runs/study

    Run the same command again to resume; trainings continue where they stopped.

    Args:
        study: TOML with config, method, trials, devices, and [space], the ranges of any keys of the configuration.
        output: Folder for the trials, results.md, best.toml and importance.png.
    """
    from ds2.train.search_results import write_search_results
    from ds2.train.study import read_study
    from ds2.train.tune import Tuner, readable_study

    need("matplotlib")
    tuner = Tuner(read_study(study), output)
    tuner.run()
    with readable_study(output):
        results = write_search_results(tuner.study, tuner.plan.config, output)
    print(results)
    return 0


def report_command(run: Positional[Path], output: OptionalOutput = None) -> int:
    """Write an HTML report about a training run.

    The report shows curves, alignments, the worst errors, activations, data and configuration.

    Example: ds2 report runs/digits

    Args:
        run: The output folder of ds2 train, finished or not.
        output: HTML file to write, or the folder for report.html; by default the run's.
    """
    from ds2.train.report import write_run_report
    from ds2.utils.files import check_writable

    target = output if output is not None and output.suffix else (output or run) / "report.html"
    check_writable(None if output is None else target)
    write_run_report(run, target)
    print(target)
    return 0


def average_command(bundles: Paths, output: Output) -> int:
    """Average the weights of models trained from the same start.

    They may differ in seed or data, but began with the same weights (start_from): unrelated models have no average.

    Example: ds2 average runs/seed1/best.safetensors runs/seed2/best.safetensors --output average.safetensors

    Args:
        bundles: Two or more bundles of one configuration; of fine-tunings their fine-tuned.safetensors. The search is
            that of the first with a language model.
        output: Bundle to write.
    """
    from ds2.train.average_models import average

    check_bundle_name(output)
    average(bundles).save(output)
    print(output)
    return 0
