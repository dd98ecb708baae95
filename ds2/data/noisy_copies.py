"""Noisy copies of a manifest's recordings, and hours of noise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from ds2.audio.augment import MOST_LAYERS, AugmentConfig, Augmenter, layered_noise, seeded_generator
from ds2.audio.flac import check_sample_rate, write_flac
from ds2.data.dataset import read_utterance
from ds2.data.manifest import write_manifest
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import make_folder
from ds2.utils.folder_lock import FolderLock

# Noise alone: otherwise the copy of a test set is to be like the original.
MIX = AugmentConfig(speed=(1.0,), noise_probability=1.0, synthetic_noise_probability=0.0, gain=(0.0, 0.0))
NOISE_LEVEL = -26.0  # dB below full scale, of the mean power: the level of speech in most corpora
PEAK = 0.99  # of full scale
HEADROOM = 1 / 8  # factor at which the sum of speech and noise does not clip


class Mixture(Dataset[Utterance | str | InputError]):
    """Item i is utterance i, augmented and written, or the line that says why it could not be read.

    It is the error where the copy cannot be written: of one that a process raises, its loader makes a traceback.
    """

    def __init__(self, utterances: Sequence[Utterance], folder: Path, augmenter: Augmenter):
        self.utterances = utterances
        self.folder = folder
        self.augmenter = augmenter

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Utterance | str | InputError:
        utterance = self.utterances[index]
        rate = self.augmenter.sample_rate
        try:
            # Speech and noise together may exceed full scale: then the copy is softer, at the same ratio.
            samples = self.augmenter(read_utterance(utterance, rate) * HEADROOM, 0, index) / HEADROOM
            samples = samples / samples.abs().max().clamp(min=1.0)
        except InputError as error:
            return str(error)
        path = copy_path(self.folder, index)
        try:
            write_flac(path, samples.numpy(), rate)
        except InputError as error:
            return error
        return replace(utterance, audio_path=path.absolute(), duration=round(len(samples) / rate, 4), offset=None)


def copy_path(folder: Path, index: int) -> Path:
    """The file for the copy of utterance `index`."""
    return folder / "audio" / f"{index:07}.flac"


def write_noisy_copy(
    utterances: Sequence[Utterance],
    folder: Path,
    config: AugmentConfig,
    sample_rate: int,
    seed: int = 1,
    jobs: int = 1,
    step: Callable[[], None] = lambda: None,
) -> list[str]:
    """Writes `folder`/audio/ and `folder`/manifest.jsonl; the same seed gives the same files with any number of jobs.

    Returns:
        a line for each utterance that could not be read.

    Raises:
        InputError: the folder holds a manifest, another process writes into it, or no utterance can be read.
        ParameterError: FLAC has no such sample rate.
    """
    check_sample_rate(sample_rate)
    make_folder(folder / "audio")
    with FolderLock(folder):
        if (folder / "manifest.jsonl").exists():
            raise InputError(f"{folder}: holds a manifest already; choose another folder")
        return _write_copies(utterances, folder, Augmenter(config, sample_rate, seed), jobs, step)


def _write_copies(
    utterances: Sequence[Utterance], folder: Path, augmenter: Augmenter, jobs: int, step: Callable[[], None]
) -> list[str]:
    mixture = Mixture(utterances, folder, augmenter)
    skipped: list[str] = []

    def written() -> Iterator[Utterance]:
        for item in DataLoader(mixture, batch_size=None, num_workers=jobs if jobs > 1 else 0):
            if isinstance(item, InputError):
                raise item
            if isinstance(item, Utterance):
                yield item
            else:
                skipped.append(item)
            step()
        if len(skipped) == len(mixture):
            raise InputError(f"{folder}: none of the utterances can be read ({[*skipped, 'there are none'][0]})")

    write_manifest(folder / "manifest.jsonl", written())
    return skipped


def noise_paths(folder: Path, sample_rate: int, hours: float) -> list[Path]:
    """The files for so many hours of noise, a minute each and the last one what is left."""
    samples, minute = _noise_samples(sample_rate, hours), 60 * sample_rate
    return [folder / f"noise{number:05}.flac" for number in range(-(-samples // minute))]


def _noise_samples(sample_rate: int, hours: float) -> int:
    return max(1, round(3600 * hours * sample_rate))


def write_noise(
    recordings: Sequence[torch.Tensor], folder: Path, sample_rate: int, hours: float, layers: tuple[int, int], seed: int
) -> int:
    """Writes hours of noise into `noise_paths`, cut from (N,) `recordings` and summed.

    Returns the number of files.

    Raises:
        InputError: a file cannot be written, or another process writes into the folder.
        ParameterError: the numbers of layers are not from 1 to MOST_LAYERS, or fall; FLAC has no such sample rate.
    """
    check_sample_rate(sample_rate)
    if not 1 <= layers[0] <= layers[1] <= MOST_LAYERS:
        limits = f"1 to {MOST_LAYERS:,}"
        raise ParameterError(
            "layers", f"must be two numbers from {limits}, the smaller first, got {layers[0]} {layers[1]}"
        )
    make_folder(folder)
    minute, wanted = 60 * sample_rate, _noise_samples(sample_rate, hours)
    paths = noise_paths(folder, sample_rate, hours)
    with FolderLock(folder):
        for number, path in enumerate(paths):
            generator = seeded_generator(seed, number)
            noise = layered_noise(recordings, min(minute, wanted - number * minute), layers, 10.0, generator)
            noise = noise * 10 ** (NOISE_LEVEL / 20) / noise.square().mean().sqrt().clamp(min=1e-6)
            noise = noise * min(1.0, PEAK / float(noise.abs().max().clamp(min=1e-6)))
            write_flac(path, noise.numpy(), sample_rate)
    return len(paths)
