"""What the random walk over frames brings on noisy speech, against a moving average (Bertasius et al. 2016).

    python recipes/ablations/random_walk.py RUNS        # 15 minutes on 2 CPU cores

Trains base.toml without and with the walk (radius 3, the affinities learnt jointly), three seeds each, and counts the
wrong words of digits' dev set, greedily: as it is and with pink noise. At test the affinities are also replaced by
equal ones (a moving average), and the walk goes on for several steps, or to its end with the share ALPHA of the
diffused posteriors. A finished training is not repeated.
"""

import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from ds2.audio.augment import add_noise, coloured_noise, seeded_generator
from ds2.audio.tensors import read_audio
from ds2.cli.recipe_scripts import run_script, train_model
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.metrics import ErrorCounts, word_errors
from ds2.model.random_walk import RandomWalk
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.torch_engine import TorchEngine

SEEDS = (1, 2, 3)
RADIUS = 3  # frames
NOISE = {"clean": None, "20 dB": 20.0, "10 dB": 10.0, "5 dB": 5.0}  # ratio of speech to pink noise
ALPHA, TO_THE_END = 0.5, 20  # share of diffused posteriors at each step, steps after which nothing changes
HERE = Path(__file__).parent


class MovingAverage(RandomWalk):
    """Each frame's posteriors become the mean over 2 R + 1 frames."""

    def __init__(self, radius: int):
        super().__init__(1, radius)

    def affinities(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, 2R + 1) equal weights of the valid frames."""
        with torch.no_grad():
            self.distance.zero_()
            self.offset.zero_()
        return super().affinities(features[:, :, :1], lengths)


class SeveralSteps(torch.nn.Module):
    """The walk again and again: y <- alpha A y + (1 - alpha) f, where f are the posteriors before it."""

    def __init__(self, walk: RandomWalk, steps: int, alpha: float):
        super().__init__()
        self.walk, self.steps, self.alpha = walk, steps, alpha
        self.affinities = walk.affinities

    def forward(self, logits: Tensor, affinities: Tensor) -> Tensor:
        """(B, T, V), (B, T, 2R + 1) -> (B, T, V) log of the diffused posteriors."""
        before = after = logits.float().log_softmax(2)
        for _ in range(self.steps):
            diffused = self.walk(after, affinities).exp()
            after = (self.alpha * diffused + (1 - self.alpha) * before.exp()).log()
        return after


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runs = Path(sys.argv[1])
    utterances = read_manifest(HERE / "../digits/data/dev.jsonl")
    rates: dict[str, dict[str, list[float]]] = {}
    for seed in SEEDS:
        for radius in (0, RADIUS):
            recognizer = Recognizer.load(trained(runs, seed, radius), options=DecoderOptions(beam=0), engine="torch")
            for name, walk in variants(recognizer, radius).items():
                set_walk(recognizer, walk)
                for noise, snr in NOISE.items():
                    rate = words_wrong(recognizer, utterances, snr)
                    rates.setdefault(name, {}).setdefault(noise, []).append(rate)
                print(name, seed, {noise: f"{found[-1]:.2%}" for noise, found in rates[name].items()}, file=sys.stderr)
    print_table(rates)


def trained(runs: Path, seed: int, radius: int) -> Path:
    settings = [f"seed={seed}", f"model.random_walk={radius}"]
    return train_model(HERE / "base.toml", runs / f"walk-{radius}.{seed}", settings)


def variants(recognizer: Recognizer, radius: int) -> Mapping[str, torch.nn.Module | None]:
    """What stands in place of the walk at test, by name."""
    if not radius:
        averages = {f"base, mean of {2 * r + 1} frames": MovingAverage(r) for r in (1, RADIUS)}
        return {"base": None, **averages}
    walk = module(recognizer).random_walk
    assert walk is not None
    return {
        "walk": walk,
        "walk, left out at test": None,
        f"walk, mean of {2 * radius + 1} frames at test": MovingAverage(radius),
        "walk, two steps": SeveralSteps(walk, 2, 1.0),
        f"walk to its end, alpha {ALPHA}": SeveralSteps(walk, TO_THE_END, ALPHA),
    }


def module(recognizer: Recognizer) -> torch.nn.Module:
    assert isinstance(recognizer.model, TorchEngine)
    return recognizer.model.module


def set_walk(recognizer: Recognizer, walk: torch.nn.Module | None) -> None:
    module(recognizer).random_walk = walk


def words_wrong(recognizer: Recognizer, utterances: Iterable[Utterance], snr: float | None) -> float:
    """The word error rate; each utterance has noise of its own, the same for all models."""
    counts = ErrorCounts()
    for number, utterance in enumerate(utterances):
        samples, _ = read_audio(utterance.audio_path, recognizer.sample_rate)
        if snr is not None:
            samples = add_noise(samples, coloured_noise(len(samples), 1.0, seeded_generator(1, number)), snr)
        counts += word_errors(utterance.text, recognizer.transcribe(samples, recognizer.sample_rate).text)
    return counts.rate


def print_table(rates: Mapping[str, Mapping[str, list[float]]]) -> None:
    print("| |", " | ".join(NOISE), "|\n" + "|---" * (1 + len(NOISE)) + "|")
    for name, found in rates.items():
        print(f"| {name} |", " | ".join(f"{mean(each):.2f} ± {spread(each):.2f} %" for each in found.values()), "|")


def mean(rates: list[float]) -> float:
    return 100 * statistics.mean(rates)


def spread(rates: list[float]) -> float:
    return 100 * statistics.stdev(rates)


if __name__ == "__main__":
    run_script(main)
