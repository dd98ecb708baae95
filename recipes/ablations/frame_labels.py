"""The random walk on a task with a label for each frame, as its paper has one for each pixel (Bertasius et al. 2016).

    python recipes/ablations/frame_labels.py [--seeds 1 2 3] [--sentences 120] [--epochs 8]     # needs espeak-ng

Which phone is spoken, and is any? espeak-ng says where its sounds begin, in noisy sentences of recipes/synthetic with
pauses between them; the voices of the test are not those of the training. A small network of convolutions over time is
trained without a walk, with the mean of neighbouring frames, and with the walk: of 131 parameters, alone or jointly
with a loss of its affinities. Prints frames wrong, and segments found for each true one, mean and deviation over seeds.
"""

import argparse
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, cross_entropy, pad

from ds2.audio.augment import add_noise, coloured_noise, seeded_generator
from ds2.cli.recipe_scripts import run_script
from ds2.curation.synthesis import Voice, speak
from ds2.model.config import FrontendConfig
from ds2.model.frontend import Frontend

TEXTS = Path(__file__).parents[1] / "synthetic" / "english.txt"
VOICES = {"train": ("f1", "f3", "m1", "m3", "m5"), "test": ("f2", "m2", "m4")}
BINS, LOW, HIDDEN = 81, 50, 64  # the walk compares 81 bands and the 50 channels of the first convolution: 131
RADIUS = 4  # frames
SNR = (0.0, 15.0)  # dB
PAUSE = (0.1, 0.5)  # seconds before each sentence and after the last
RATE = 3e-3  # Adam's, falling to 0
KINDS = ("no walk", "mean of neighbours", "walk", "walk, joint loss")
TASKS = ("phones", "speech or none")


class Walk(nn.Module):
    """W_ts = exp(-sum_k |w_k| |x_tk - x_sk|), |t - s| <= RADIUS: symmetric, in [0, 1]; A = W / row sums; y = A f."""

    def __init__(self, channels: int, learnt: bool):
        super().__init__()
        self.weights = nn.Parameter(torch.full((channels,), 1.0 / channels if learnt else 0.0), requires_grad=learnt)

    def affinities(self, low: Tensor) -> Tensor:
        """(T, K) -> (T, 2 R + 1) W, 0 beyond the ends."""
        distances = (neighbours(low) - low.unsqueeze(1)).abs() @ self.weights.abs()
        return torch.exp(-distances) * neighbours(torch.ones_like(low[:, :1])).squeeze(2)

    def forward(self, activations: Tensor, affinities: Tensor) -> Tensor:
        """(T, H), (T, 2 R + 1) -> (T, H)."""
        walk = affinities / affinities.sum(1, keepdim=True)
        return torch.einsum("tr,trh->th", walk, neighbours(activations))


class Network(nn.Module):
    """Three convolutions over time, the walk over the activations of the last, and the scores of each frame."""

    def __init__(self, labels: int, kind: str):
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(inputs, outputs, 5, padding=2)
            for inputs, outputs in ((BINS, LOW), (LOW, HIDDEN), (HIDDEN, HIDDEN))
        )
        self.walk = None if kind == "no walk" else Walk(BINS + LOW, learnt=kind != "mean of neighbours")
        self.output = nn.Linear(HIDDEN, labels)

    def forward(self, features: Tensor, steps: int = 1) -> tuple[Tensor, Tensor | None]:
        """(T, F) -> (T, V) scores, (T, 2 R + 1) affinities."""
        layers = [features.T]
        for convolution in self.convolutions:
            layers.append(convolution(layers[-1]).relu())
        activations, affinities = layers[-1].T, None
        if self.walk is not None:
            affinities = self.walk.affinities(torch.cat(layers[:2]).T)
            for _ in range(steps):
                activations = self.walk(activations, affinities)
        return self.output(activations), affinities


def neighbours(x: Tensor) -> Tensor:
    """(T, D) -> (T, 2 R + 1, D), 0 beyond the ends."""
    return pad(x, (0, 0, RADIUS, RADIUS)).unfold(0, 2 * RADIUS + 1, 1).transpose(1, 2)


@dataclass(frozen=True)
class Sentence:
    features: Tensor  # (T, F)
    labels: Tensor  # (T,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sentences", type=int, default=120, help="of the training; a third as many are tested")
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in arguments.seeds:
        names: list[str] = [""]
        train = sentences("train", arguments.sentences, seed, names)
        test = sentences("test", arguments.sentences // 3, seed, names)
        for task in TASKS:
            for kind in KINDS:
                network = trained(train, len(names), task, kind, seed, arguments.epochs)
                for name, steps in ((kind, 1), *[(f"{kind}, ten steps at test", 10)] * kind.startswith("walk")):
                    found.setdefault((task, name), []).append(measured(network, test, task, steps))
                    print(task, name, seed, found[task, name][-1], file=sys.stderr, flush=True)
    print("| task | network | frames wrong | segments for each true one |\n|---|---|---|---|")
    for (task, name), figures in found.items():
        wrong, segments = zip(*figures, strict=True)
        print(f"| {task} | {name} | {spread(wrong, 100)} % | {spread(segments)} |")


def sentences(split: str, count: int, seed: int, names: list[str]) -> list[Sentence]:
    """Pairs of sentences in noise; what is not yet among the `names` of sounds is added."""
    chance, texts = random.Random(f"{split}{seed}"), TEXTS.read_text().splitlines()
    return [sentence(chance.sample(texts, 2), split, chance, names) for _ in range(count)]


def sentence(texts: list[str], split: str, chance: random.Random, names: list[str]) -> Sentence:
    name, speed, pitch = chance.choice(VOICES[split]), chance.randint(140, 200), chance.randint(30, 70)
    voice = Voice("espeak-ng", f"gmw/en-US+{name}", speed, pitch)
    parts, edges, rate = [], [("", 0.0)], 0
    for text in texts:
        spoken = speak(text, voice)
        rate = spoken.sample_rate
        parts.append(torch.zeros(round(chance.uniform(*PAUSE) * rate)))
        before = sum(map(len, parts)) / rate
        edges += [(name, before + start) for name, start in spoken.sounds or []]
        parts.append(spoken.samples)
        edges.append(("", sum(map(len, parts)) / rate))
    samples = torch.cat([*parts, torch.zeros(round(chance.uniform(*PAUSE) * rate))])
    noise = coloured_noise(len(samples), 1.0, seeded_generator(chance.randrange(1 << 30)))
    samples = add_noise(samples, noise, chance.uniform(*SNR))
    frontend = Frontend(FrontendConfig(rate, mel_bins=BINS))
    features = frontend.log_spectrogram(samples.unsqueeze(0), torch.tensor([len(samples)]))[0][0].T
    features = (features - features.mean(0)) / features.std(0)
    names += sorted({name for name, _ in edges} - set(names))
    numbers = torch.tensor([names.index(name) for name, _ in edges])
    middles = (torch.arange(len(features)) * frontend.config.hop_samples + frontend.config.window_samples / 2) / rate
    places = torch.searchsorted(torch.tensor([start for _, start in edges]), middles, right=True)
    return Sentence(features, numbers[places - 1])


def trained(train: list[Sentence], names: int, task: str, kind: str, seed: int, epochs: int) -> Network:
    torch.manual_seed(seed)
    network = Network(names if task == "phones" else 2, kind)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    updates = epochs * len(train)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1 - update / updates)
    for update in range(updates):
        each = train[update % len(train)]
        labels = targets(each, task)
        scores, affinities = network(each.features)
        loss = cross_entropy(scores, labels)
        if affinities is not None and kind.endswith("joint loss"):
            same = (neighbours(labels.unsqueeze(1) + 1).squeeze(2) == labels.unsqueeze(1) + 1).float()
            loss = loss + binary_cross_entropy(affinities.clamp(1e-6, 1 - 1e-6), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


@torch.no_grad()
def measured(network: Network, test: list[Sentence], task: str, steps: int) -> tuple[float, float]:
    """The part of frames that is wrong, and segments of equal labels found for each true one."""
    wrong = frames = found = true = 0
    for each in test:
        labels, best = targets(each, task), network(each.features, steps)[0].argmax(1)
        wrong, frames = wrong + int((best != labels).sum()), frames + len(labels)
        found, true = found + 1 + int((best.diff() != 0).sum()), true + 1 + int((labels.diff() != 0).sum())
    return wrong / frames, found / true


def targets(each: Sentence, task: str) -> Tensor:
    """(T,) numbers of the phones, or 1 where there is speech."""
    return each.labels if task == "phones" else (each.labels > 0).long()


def spread(values: tuple[float, ...], factor: float = 1.0) -> str:
    deviation = f" ± {factor * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{factor * statistics.mean(values):.2f}{deviation}"


if __name__ == "__main__":
    run_script(main)
