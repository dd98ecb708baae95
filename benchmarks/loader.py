"""Hours of audio per minute, decoded, augmented and turned into features: ours, lhotse, and webdataset + torchaudio.

    python benchmarks/loader.py [MANIFEST] [--noise FOLDER] [--hours 1] [--rounds 3]

All read the same FLAC recordings, lhotse as files and the others from shards, with two worker processes and one thread
each, and do the same to them: speed 0.9, 1.0 or 1.1; noise at 5 to 30 dB on 40 % of the utterances; log power in 20 ms
windows every 10 ms; two masks in frequency and two in time; padded minibatches of some 120 s. They
are timed in turn; the table shows medians of the rounds. By default the recordings and the noise are those of the
digits recipe.
"""

import argparse
import importlib.util
import io
import os
import platform
import resource
import statistics
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import soundfile
import torch
from digits import RECIPE, manifest
from torch.utils.data import DataLoader

from ds2.audio.augment import AugmentConfig, Augmenter, augment_features, seeded_generator
from ds2.audio.tensors import read_audio
from ds2.audio.torchaudio_loader import functional
from ds2.data.corpus_sampling import SamplingConfig
from ds2.data.dataset import SpeechDataset, collate
from ds2.data.manifest import read_manifest
from ds2.data.sampler import SortaGradSampler
from ds2.data.shards import ShardConfig, write_shards
from ds2.data.split import sample
from ds2.data.utterance import Utterance
from ds2.model.config import FrontendConfig
from ds2.model.frontend import Frontend
from ds2.text import Tokenizer

RATE = 16000  # Hz
WORKERS = 2
BATCH_SECONDS = 120.0  # padding included
SPEEDS = (0.9, 1.0, 1.1)
NOISY, SNR = 0.4, (5.0, 30.0)
FREQUENCY_MASK, TIME_MASK = 0.15, 0.05  # largest shares
MASKS = 2

Batches = Iterator[float]  # seconds of audio in each minibatch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, nargs="?")
    parser.add_argument("--noise", type=Path, help="folder of recordings")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.hours < 0.2:
        parser.error("--hours must be at least 0.2: a minibatch has two minutes, and the first is not measured")
    for package in ("lhotse", "webdataset"):
        if importlib.util.find_spec(package) is None:
            raise SystemExit(f"{package} is not installed: pip install -c constraints.txt '.[dev]'")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards, noise = lay_out(arguments, folder)
        loaders: dict[str, Callable[[int], Batches]] = {
            "ds2": lambda epoch: ours(shards, noise, epoch),
            "lhotse": lambda epoch: lhotse(folder / "flac", noise),
            "webdataset": lambda epoch: webdataset(sorted(folder.glob("*.tar")), noise),
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in loaders}
        for number in range(1, arguments.rounds + 1):
            for name, loader in loaders.items():
                measured[name].append(speed(loader(number)))
                print(f"round {number}: {name} {measured[name][-1][0]:.2f} hours a minute", flush=True)
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {WORKERS} workers; medians:")
        medians = {
            name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in measured.items()
        }
        for name, values in medians.items():
            ratios = [own / value for own, value in zip(medians["ds2"], values, strict=True)]
            print(f"{name:12} {values[0]:6.2f} hours a minute, ds2 is {ratios[0]:.2f} times as fast; ", end="")
            print(f"{values[1]:6.2f} hours a minute of a core's time, {ratios[1]:.2f} times")


def lay_out(arguments: argparse.Namespace, folder: Path) -> tuple[list[Utterance], list[Path]]:
    """The corpus as shards and as files, and the noise, all at RATE."""
    corpus = sample(read_manifest(arguments.manifest or manifest("train")), arguments.hours)
    write_shards(corpus, folder, ShardConfig(hours=0.25, coding="flac", sample_rate=RATE))
    for shard in folder.glob("*.tar"):
        with tarfile.open(shard) as archive:
            archive.extractall(folder / "flac", filter="data")
    noise = []
    recordings = arguments.noise.iterdir() if arguments.noise else (RECIPE / "audio").glob("noise_*")
    for path in sorted(recordings):
        noise.append(folder / f"{path.stem}.wav")
        soundfile.write(noise[-1], read_audio(path, RATE)[0].numpy(), RATE)
    return list(read_manifest(folder / "manifest.jsonl")), noise


def speed(batches: Batches) -> tuple[float, float]:
    """Hours a minute from the first minibatch on; hours a minute of a core's time, workers and their start included.

    The second says little less of a loader, and does not change with what else the machine does.
    """
    computed = core_seconds()
    seconds = first = next(batches)
    began = time.perf_counter()
    for audio in batches:
        seconds += audio
    ended = time.perf_counter()
    return (seconds - first) / (ended - began) / 60, seconds / (core_seconds() - computed) / 60


def core_seconds() -> float:
    """Spent by this process and by the workers that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def ours(utterances: list[Utterance], noise: list[Path], epoch: int) -> Batches:
    config = AugmentConfig(
        speed=SPEEDS, noise=tuple(noise), noise_probability=NOISY, synthetic_noise_probability=0.0, snr=SNR
    )
    tokenizer = Tokenizer.from_texts(utterance.text for utterance in utterances)
    durations = [utterance.duration for utterance in utterances]
    sampler = SortaGradSampler(durations, 64, 1, sampling=SamplingConfig(batch_seconds=BATCH_SECONDS))
    sampler.begin(epoch)
    dataset = SpeechDataset(utterances, tokenizer, RATE, Augmenter(config, RATE, 1))
    frontend = Frontend(FrontendConfig(RATE))
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, num_workers=WORKERS)
    for number, batch in enumerate(loader):
        features, lengths = frontend(batch.samples, batch.sample_lengths)
        augment_features(features, lengths, config, seeded_generator(1, epoch, number))
        yield float(batch.sample_lengths.sum()) / RATE


def lhotse(folder: Path, noise: list[Path]) -> Batches:
    from lhotse import CutSet, MonoCut, Recording, Spectrogram, SpectrogramConfig, SupervisionSegment
    from lhotse.dataset import (
        CutMix,
        DynamicBucketingSampler,
        K2SpeechRecognitionDataset,
        OnTheFlyFeatures,
        PerturbSpeed,
        SpecAugment,
    )

    def cut(path: Path) -> MonoCut:
        recording = Recording.from_file(path, recording_id=path.stem)
        said = SupervisionSegment(path.stem, path.stem, 0, recording.duration, text="text")
        return MonoCut(path.stem, 0, recording.duration, 0, recording=recording, supervisions=[said])

    cuts = CutSet.from_cuts(cut(path) for path in sorted(folder.glob("*.flac"))).to_eager()
    noises = CutSet.from_cuts(cut(path).drop_supervisions() for path in noise).to_eager()
    bins, frames = round(FREQUENCY_MASK * 161), 30
    dataset = K2SpeechRecognitionDataset(
        cut_transforms=[PerturbSpeed(factors=[0.9, 1.1], p=2 / 3), CutMix(noises, snr=SNR, p=NOISY)],
        input_transforms=[
            SpecAugment(
                time_warp_factor=0,
                num_feature_masks=MASKS,
                features_mask_size=bins,
                num_frame_masks=MASKS,
                frames_mask_size=frames,
                p=1.0,
            )
        ],
        input_strategy=OnTheFlyFeatures(Spectrogram(SpectrogramConfig(window_type="hanning", frame_length=0.02))),
    )
    sampler = DynamicBucketingSampler(cuts, max_duration=BATCH_SECONDS, shuffle=True, num_buckets=10)
    for batch in DataLoader(dataset, sampler=sampler, batch_size=None, num_workers=WORKERS):
        yield float(batch["supervisions"]["num_frames"].sum()) * 0.01


class Torchaudio:
    """What a webdataset user writes with torchaudio: one utterance after the other, then a padded minibatch."""

    def __init__(self, noise: list[Path]):
        self.functional = functional()  # beside a CPU-only torch torchaudio loads after this alone
        import torchaudio.transforms as transforms

        self.noises = [read_audio(path)[0] for path in noise]
        self.speeds = {factor: transforms.Speed(RATE, factor) for factor in SPEEDS}
        self.spectrogram = transforms.Spectrogram(n_fft=320, hop_length=160)
        self.masks = [transforms.FrequencyMasking(round(FREQUENCY_MASK * 161)) for _ in range(MASKS)]

    def __call__(self, sample: dict) -> tuple[torch.Tensor, float]:
        samples = torch.from_numpy(soundfile.read(io.BytesIO(sample["flac"]), dtype="float32")[0])
        samples = self.speeds[SPEEDS[int(torch.randint(len(SPEEDS), ()))]](samples)[0]
        if torch.rand(()) < NOISY:
            noise = self.noises[int(torch.randint(len(self.noises), ()))]
            start = int(torch.randint(max(1, len(noise) - len(samples)), ()))
            ratio = torch.empty(1).uniform_(*SNR)
            noise = noise[start : start + len(samples)].unsqueeze(0)
            samples = self.functional.add_noise(samples[: noise.shape[1]].unsqueeze(0), noise, ratio)[0]
        features = (self.spectrogram(samples) + 1e-5).log()
        for mask in self.masks:
            features = mask(features)
        for _ in range(MASKS):
            features = self.functional.mask_along_axis(
                features.unsqueeze(0), round(TIME_MASK * features.shape[1]) + 1, 0.0, 2
            )[0]
        return features, len(samples) / RATE


def padded(samples: list[tuple[torch.Tensor, float]]) -> tuple[torch.Tensor, float]:
    features = torch.nn.utils.rnn.pad_sequence([features.T for features, _ in samples], batch_first=True)
    return features, sum(seconds for _, seconds in samples)


def webdataset(shards: list[Path], noise: list[Path]) -> Batches:
    import webdataset as wds

    dataset = wds.WebDataset([str(path) for path in shards], shardshuffle=len(shards), empty_check=False)
    dataset = dataset.shuffle(500).map(Torchaudio(noise)).batched(24, collation_fn=padded)
    for _, seconds in wds.WebLoader(dataset, batch_size=None, num_workers=WORKERS):
        yield seconds


if __name__ == "__main__":
    main()
