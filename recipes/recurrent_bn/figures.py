"""Figures 1a, 1b, 3b, 5 and 6 of recurrent batch normalisation (Cooijmans et al. 2016), small.

    python recipes/recurrent_bn/figures.py RESULTS [--text books.txt.xz] [--updates 300] [--seeds 1 2 3]

The task is `language` of compare.py, by default on the sentences of recipes/synthetic. A BN-LSTM is trained with each
gamma; that of 0.1 is also measured on longer sequences, by running averages, by population statistics of one pass over
the training set, and by each minibatch's own.
Writes RESULTS/figures.png and prints the tables.
"""

import argparse
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from compare import BATCH, CLIP, LENGTH, RATE, Batches, Language, Network, evaluate
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ds2.cli.recipe_scripts import run_script
from ds2.model import normalization
from ds2.model.recurrent import BNLSTMDirection
from ds2.utils.files import make_folder
from ds2.utils.plots import save_png, subplots

TEXT = Path(__file__).parents[1] / "synthetic" / "english.txt"
GAMMAS = (0.01, 0.1, 0.3, 0.5, 0.7, 1.0)
PAPERS = 0.1
LENGTHS = (50, 100, 200, 400)  # characters at test
POOLED = 50  # minibatches of the pass over the training set
SMOOTHED = 20  # updates that a point of figure 6 is the mean of

Curve = tuple[Sequence[float], Sequence[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    make_folder(arguments.results)
    task = Language(arguments.text)
    losses: dict[float, list[list[float]]] = {gamma: [] for gamma in GAMMAS}
    errors: dict[str, list[list[float]]] = {}
    settled: Curve = ([], [])
    for seed, gamma in itertools.product(arguments.seeds, GAMMAS):
        network, history = trained(task, gamma, seed, arguments.updates)
        losses[gamma].append(history)
        if gamma == PAPERS:
            settled = distance_from_the_last(network)
            for name, found in by_statistics(network, task, seed).items():
                errors.setdefault(name, []).append(found)
    print_tables(losses, errors)
    draw(arguments.results / "figures.png", losses, errors, settled, gradients(task))


def trained(task: Language, gamma: float, seed: int, updates: int) -> tuple[Network, list[float]]:
    """The network, and the bits per character of each minibatch."""
    network, history = made(task, gamma, seed), []
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    for x, targets in itertools.islice(task.batches(seed), updates):
        loss = cross_entropy(network.train()(x).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        history.append(float(loss.detach()) / torch.tensor(2.0).log().item())
    return network, history


def made(task: Language, gamma: float, seed: int) -> Network:
    torch.manual_seed(seed)
    network = Network("bn-lstm", task.inputs, task.outputs, task.last)
    for norm in network.modules():
        if isinstance(norm, normalization.StepBatchNorm):
            nn.init.constant_(norm.gamma, gamma)
    return network


def by_statistics(network: Network, task: Language, seed: int) -> dict[str, list[float]]:
    """Bits per character of sequences of each length, by what they are normalised with."""
    running = [evaluate(network, held_out(task, length), task.error) for length in LENGTHS]
    own = [batch_error(network, task, length) for length in LENGTHS]
    pool(network, task, seed)
    pooled = [evaluate(network, held_out(task, length), task.error) for length in LENGTHS]
    return {"running averages": running, "population, in one pass": pooled, "the minibatch's own": own}


def held_out(task: Language, length: int) -> Batches:
    """Two minibatches of sequences from all over the held-out text."""
    x, targets = map(torch.cat, zip(*task.held_out(length), strict=True))
    for place in torch.arange(len(x))[:: len(x) // (2 * BATCH)][: 2 * BATCH].split(BATCH):
        yield x[place], targets[place]


@torch.no_grad()
def batch_error(network: Network, task: Language, length: int) -> float:
    """By the statistics of minibatches of the held-out text; those of the network stay."""
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    batches = [(network.train()(x), targets) for x, targets in held_out(task, length)]
    network.load_state_dict(kept)
    return statistics.mean(task.error(scores, targets) for scores, targets in batches)


@torch.no_grad()
def pool(network: Network, task: Language, seed: int) -> None:
    """Replaces the running averages by means and variances over minibatches of the training set, of one network."""
    counts: dict[int, Tensor] = {}

    def add(running_mean: Tensor, running_variance: Tensor, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        before = counts.get(running_mean.data_ptr(), torch.zeros_like(count))
        counts[running_mean.data_ptr()] = before + count
        weight = (count / (before + count)).unsqueeze(-1)
        spread = weight * (1 - weight) * (mean - running_mean).square()
        running_variance.lerp_(variance, weight).add_(spread)
        running_mean.lerp_(mean, weight)

    usual, normalization.move = normalization.move, add
    try:
        for x, _ in itertools.islice(task.batches(seed + 1000), POOLED):
            network.train()(x)
    finally:
        normalization.move = usual


def distance_from_the_last(network: Network) -> Curve:
    """Steps, and how far the recurrent term's mean at each is from that at the last step, in its deviations there."""
    direction = network.recurrent
    assert isinstance(direction, BNLSTMDirection)
    norm = direction.recurrent_norm
    means, last = norm.means[:LENGTH], norm.variances[LENGTH - 1].sqrt()
    distances = ((means - means[-1]) / last).square().mean(1).sqrt()
    return list(range(1, LENGTH + 1)), distances.tolist()


def gradients(task: Language) -> dict[float, Curve]:
    """Steps before the end, and the norm of the gradient of the last step's loss by h, of new networks."""
    found = {}
    x, targets = next(task.batches(1))
    for gamma in GAMMAS:
        network, terms = made(task, gamma, 1).train(), []

        def keep(_: nn.Module, inputs: tuple[Any, ...], terms: list[Tensor] = terms) -> None:
            terms.append(inputs[0])
            if inputs[0].requires_grad:
                inputs[0].retain_grad()

        direction = network.recurrent
        assert isinstance(direction, BNLSTMDirection)
        direction.recurrent_norm.register_forward_pre_hook(keep)
        states = direction._run(x, torch.full((len(x),), x.shape[1]), direction.start(len(x)))
        cross_entropy(network.output(states[:, -1]), targets[:, -1]).backward()
        norms = [(term.grad @ direction.recurrent_weight).norm().item() for term in terms[1:]]
        found[gamma] = (list(range(len(norms), 0, -1)), norms)
    return found


def print_tables(losses: dict[float, list[list[float]]], errors: dict[str, list[list[float]]]) -> None:
    print("| gamma | bits per character in training, last updates |\n|---|---|")
    for gamma, runs in losses.items():
        print(f"| {gamma} | {spread([statistics.mean(run[-SMOOTHED:]) for run in runs])} |")
    print("\n| statistics | " + " | ".join(f"{length} characters" for length in LENGTHS))
    print("|" + "---|" * (1 + len(LENGTHS)))
    for name, runs in errors.items():
        print(f"| {name} | " + " | ".join(map(spread, zip(*runs, strict=True))) + " |")


def spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values) if len(values) > 1 else 0.0:.3f}"


def draw(
    path: Path,
    losses: dict[float, list[list[float]]],
    errors: dict[str, list[list[float]]],
    settled: Curve,
    gradient_norms: dict[float, Curve],
) -> None:
    figure, axes = subplots(1, 5, size=(20, 3.6))
    deviations, noise = [0.05 * step for step in range(1, 61)], torch.randn(20_000)
    axes[0].plot(deviations, [float(1 - (each * noise).tanh().square().mean()) for each in deviations])
    axes[0].set(title="1a: derivative of tanh", xlabel="deviation of its input")
    for gamma, curve in gradient_norms.items():
        axes[1].semilogy(*curve, label=f"gamma {gamma}")
    axes[1].set(title="1b: gradient by h", xlabel="steps before the end")
    for name, runs in errors.items():
        axes[2].plot(LENGTHS, [statistics.mean(each) for each in zip(*runs, strict=True)], "o-", label=name)
    axes[2].set(title="3b: bits per character", xlabel="characters of a sequence")
    axes[3].plot(*settled)
    axes[3].set(title="5: distance of the mean from that at the end", xlabel="step")
    for gamma, runs in losses.items():
        means = [statistics.mean(each) for each in zip(*runs, strict=True)]
        starts = range(0, len(means), SMOOTHED)
        smooth = [statistics.mean(means[start : start + SMOOTHED]) for start in starts]
        axes[4].plot([start + SMOOTHED for start in starts], smooth, label=f"gamma {gamma}")
    axes[4].set(title="6: bits per character in training", xlabel="update")
    for each in (axes[1], axes[2], axes[4]):
        each.legend()
    save_png(figure, path, dpi=80)


if __name__ == "__main__":
    run_script(main)
