"""Text spoken by espeak-ng and flite in many voices: any number of hours, with known texts and times.

    python recipes/synthetic/prepare.py --output data/synthetic --hours 10
    python recipes/synthetic/prepare.py --output data/mandarin --hours 5 --texts mandarin

Texts: english (english.txt), digits, numbers, mandarin, or a file with a sentence on each line. Writes train, dev, test
and test_noisy manifests; dev and test have sentences and voices that are not in train. Where the engine reports the
times of words (espeak-ng), an utterance holds them as `words`: [word, start, end], seconds.

Runs in parallel, and continues where it was stopped; more hours are added to the existing ones. The same command
speaks the same texts in the same voices.
"""

import argparse
import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import soundfile
import torch

from ds2.audio.augment import add_noise
from ds2.audio.tensors import read_audio, resample
from ds2.cli.recipe_scripts import run_script, write_splits
from ds2.curation.synthesis import MANDARIN, Voice, installed, speak
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.text import normalize
from ds2.utils.progress import Progress

sys.path.insert(0, str(Path(__file__).parent))
import texts

COMPOSED = {"digits": texts.digits, "numbers": texts.numbers, "mandarin": texts.mandarin}
BLOCK = 50  # utterances that are made together
SPLITS = {1: "dev", 2: "test"}  # by number of a block modulo SHARES, of a sentence likewise; all others are train
SHARES = 20
ACCENTS = [
    f"gmw/en{accent}"
    for accent in ("", "-US", "-US-nyc", "-029", "-GB-scotland", "-GB-x-rp", "-GB-x-gbclan", "-GB-x-gbcwmd")
]
VARIANTS = (
    "f1 f2 f3 f4 m1 m2 m3 m4 m5 m7 m8 adam Alex Alicia Andrea Andy anika antonio aunty belinda benjamin boris caleb "
    "david Denis Diogo ed edward Gene grandma Henrique Hugo Jacky john klatt klatt4 linda marcelo Marco Mario max "
    "Michael miguel Mike pablo paul pedro quincy rob sandro shelby travis victor zac"
).split()
UNHEARD = "f5 m6 Annie steph iven Lee norbert robert".split()  # variants of dev and test
FLITE, UNHEARD_FLITE = ("kal16", "awb", "slt"), ("rms",)
FLITE_SHARE = 0.15
SPEED = (120, 210)  # words a minute
PITCH = (25, 75)
EDGE = (0.05, 0.35)  # seconds of silence before and after
LEVEL = (-12.0, 0.0)  # dB
SNR = (0.0, 15.0)  # dB, of test_noisy
NOISE = Path(__file__).parents[1] / "digits" / "audio"


@dataclass(frozen=True)
class Plan:
    """What a block needs to know."""

    output: Path
    kind: str  # english, one of COMPOSED, or a file
    rate: int  # Hz
    seed: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--texts", default="english", help="english, digits, numbers, mandarin, or a file")
    parser.add_argument("--rate", type=int, default=16000, help="Hz")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    plan = Plan(arguments.output.absolute(), arguments.texts, arguments.rate, arguments.seed)
    blocks = make_blocks(plan, arguments.hours, arguments.workers)
    splits = {
        split: [each for number in range(blocks) for each in block_part(plan, number, split)]
        for split in ("train", "dev", "test", "test_noisy")
    }
    write_splits(plan.output, splits)


def make_blocks(plan: Plan, hours: float, workers: int) -> int:
    """Makes blocks until they last long enough; how many there are."""
    count, seconds = 0, 0.0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool, Progress("speaking", round(hours * 3600), "s") as progress:
        while seconds < 3600 * hours:
            ahead = range(count, count + 2 * workers)
            for duration in pool.map(make_block, [plan] * len(ahead), ahead):
                if seconds < 3600 * hours:
                    count, seconds = count + 1, seconds + duration
                    progress.step(round(duration))
    return count


def make_block(plan: Plan, number: int) -> float:
    """Speaks the utterances of a block unless that was done before; seconds of them."""
    path = plan.output / "blocks" / f"{number:05}.jsonl"
    if not path.exists():
        torch.set_num_threads(1)
        folder = plan.output / "audio" / f"{number:05}"
        folder.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(path, list(utterances(plan, number, folder)))
    return sum(utterance.duration for utterance in read_manifest(path))


def utterances(plan: Plan, number: int, folder: Path) -> Iterator[Utterance]:
    rng = random.Random(f"{plan.seed} {number}")
    split = SPLITS.get(number % SHARES, "train")
    text_of = source(plan.kind, split)
    for index in range(BLOCK):
        text = text_of(rng)
        voice = choose_voice(plan.kind, split != "train", rng)
        spoken = speak(text, voice)
        language = "zh" if plan.kind == "mandarin" else "en"
        before, after = (round(rng.uniform(*EDGE) * plan.rate) for _ in range(2))
        samples = resample(spoken.samples, spoken.sample_rate, plan.rate)
        samples = samples / samples.abs().max().clamp(min=1e-3) * 10 ** (rng.uniform(*LEVEL) / 20)
        samples = torch.nn.functional.pad(samples, (before, after))
        path = folder / f"{index:02}.flac"
        soundfile.write(path, samples.numpy(), plan.rate)
        shift = before / plan.rate
        times = [[word, round(start + shift, 3), round(end + shift, 3)] for word, start, end in spoken.words or []]
        duration, speaker = round(len(samples) / plan.rate, 3), f"{voice.engine}:{voice.name}"
        extra = {"words": times} if times else {}
        yield Utterance(path, duration, normalize(text, language), speaker=speaker, lang=language, extra=extra)
        if split == "test":
            noisy = path.with_name(f"{index:02}_noisy.flac")
            soundfile.write(noisy, in_noise(samples, plan.rate, rng).clamp(-1, 1).numpy(), plan.rate)


def source(kind: str, split: str) -> Callable[[random.Random], str]:
    """What gives a sentence of the split."""
    if kind in COMPOSED:
        return COMPOSED[kind]
    lines = texts.sentences(None if kind == "english" else Path(kind))
    own = [line for number, line in enumerate(lines) if SPLITS.get(number % SHARES, "train") == split]
    return lambda rng: rng.choice(own or lines)


def choose_voice(kind: str, unheard: bool, rng: random.Random) -> Voice:
    variant, speed, pitch = rng.choice(UNHEARD if unheard else VARIANTS), rng.randint(*SPEED), rng.randint(*PITCH)
    if kind == "mandarin":
        return Voice("espeak-ng", f"{MANDARIN}+{variant}", speed, pitch)
    if rng.random() < FLITE_SHARE and installed("flite"):
        return Voice("flite", rng.choice(UNHEARD_FLITE if unheard else FLITE), speed)
    return Voice("espeak-ng", f"{rng.choice(ACCENTS)}+{variant}", speed, pitch)


def in_noise(samples: torch.Tensor, rate: int, rng: random.Random) -> torch.Tensor:
    """(N,) -> (N,) with a real noise from a random place on."""
    noise, _ = read_audio(rng.choice(sorted(NOISE.glob("noise_*"))), rate)
    noise = noise.roll(-rng.randrange(len(noise))).repeat(len(samples) // len(noise) + 1)[: len(samples)]
    return add_noise(samples, noise, rng.uniform(*SNR))


def block_part(plan: Plan, number: int, split: str) -> list[Utterance]:
    """The utterances of a block that belong to a manifest."""
    own = SPLITS.get(number % SHARES, "train")
    if own != split.removesuffix("_noisy"):
        return []
    found = read_manifest(plan.output / "blocks" / f"{number:05}.jsonl")
    if split != "test_noisy":
        return found
    lines = []
    for utterance in found:
        path = utterance.audio_path.with_name(f"{utterance.audio_path.stem}_noisy.flac")
        lines.append(
            Utterance(path, utterance.duration, utterance.text, speaker=utterance.speaker, lang=utterance.lang)
        )
    return lines


if __name__ == "__main__":
    run_script(main)
