"""ds2 data mix, noise: noisy copies of data sets."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.cli.data import report_skipped
from ds2.cli.options import NO_DEFAULT, Files, Output
from ds2.cli.overwriting import refuse_overwriting
from ds2.utils.errors import InputError, ParameterError

MOST_HOURS = 10_000  # a terabyte
Keys = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(
        name="set",
        metavar="KEY=VALUE",
        help="Set any other key of [augment] in a training's configuration, such as --set equalizer_probability=0.5 or "
        "--set 'speed=[0.9, 1.1]'; the value in TOML.",
    ),
]


@dataclass(frozen=True)
class MixOptions:
    """How the copy should sound.

    Attributes:
        noise: Recordings of noise, or folders of them; without any, noise is synthesised.
        impulse_responses: Impulse responses of rooms, or folders of them; each utterance is convolved with one.
        snr: Lowest and highest signal-to-noise ratio in dB, drawn uniformly for each utterance.
        noise_probability: Probability that an utterance gets noise.
        layers: Smallest and largest number of cuts of noise that are summed.
        channel_probability: Probability that an utterance goes through a telephone channel or a codec.
    """

    noise: Annotated[tuple[str, ...], NO_DEFAULT] = ()
    impulse_responses: Annotated[tuple[str, ...], NO_DEFAULT] = ()
    snr: tuple[float, float] = (5.0, 30.0)
    noise_probability: float = 1.0
    layers: tuple[int, int] = (1, 1)
    channel_probability: float = 0.0


DEFAULT_MIX = MixOptions()


def mix_noise_command(
    manifest: Positional[Path],
    output: Output,
    sound: Annotated[MixOptions, tyro.conf.arg(name="")] = DEFAULT_MIX,
    set_: Keys = (),
    sample_rate: int = 16000,
    seed: int = 1,
    jobs: int = 1,
) -> int:
    """Write a noisy copy of a data set.

    It adds noise at a given ratio, reverberation, telephone channels and codecs.

    Example: ds2 data mix test.jsonl --output test-5dB --noise noise/ --snr 5 5

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        output: Folder for manifest.jsonl and audio/.
        sound: How the copy should sound.
        sample_rate: Sample rate of the copy in Hz.
        seed: Another seed makes another copy; the number of jobs does not.
        jobs: Processes.
    """
    from ds2.audio.augment import AugmentConfig
    from ds2.data.manifest import read_manifest
    from ds2.data.noisy_copies import MIX, copy_path, write_noisy_copy
    from ds2.utils.config import from_dict, override, to_dict
    from ds2.utils.progress import Progress

    utterances = read_manifest(manifest)
    values = to_dict(MIX) | _augment_values(sound)
    for setting in set_:
        override(values, setting.removeprefix("augment."))  # as in a training's configuration
    config = from_dict(AugmentConfig, values, "data mix")
    inputs = chain([manifest], config.noise, config.impulse_responses, (each.audio_path for each in utterances))
    copies = (copy_path(output, index) for index in range(len(utterances)))
    refuse_overwriting(inputs, chain([output / "manifest.jsonl"], copies))
    with Progress("mixing", len(utterances), "utterances") as progress:
        skipped = write_noisy_copy(utterances, output, config, sample_rate, seed, jobs, progress.step)
    print(output / "manifest.jsonl")
    return report_skipped(skipped)


def _augment_values(sound: MixOptions) -> dict[str, object]:
    """Keys of [augment]."""
    return {
        "noise": absolute_recordings(sound.noise),
        "impulse_responses": absolute_recordings(sound.impulse_responses),
        "reverberation_probability": float(bool(sound.impulse_responses)),
        "snr": sound.snr,
        "noise_probability": sound.noise_probability,
        "noise_layers": sound.layers,
        "channel_probability": sound.channel_probability,
        "synthetic_noise_probability": float(not sound.noise),
    }


def noise_command(
    files: Files,
    output: Output,
    hours: float,
    layers: tuple[int, int] = (2, 4),
    sample_rate: int = 16000,
    seed: int = 1,
) -> int:
    """Make hours of noise from minutes of it by summing random cuts.

    Example: ds2 data noise recordings/ --output noise --hours 2

    Args:
        files: Recordings of noise, or folders of them.
        output: Folder for FLAC files of a minute each; the last one may be shorter.
        hours: Hours of noise to make.
        layers: Smallest and largest number of cuts that are summed.
        sample_rate: Sample rate in Hz.
        seed: Another seed makes other noise.
    """
    from ds2.audio.flac import check_sample_rate
    from ds2.audio.tensors import read_audio
    from ds2.data.noisy_copies import noise_paths, write_noise

    check_sample_rate(sample_rate)  # before recordings are resampled to it
    if not 0 < hours <= MOST_HOURS:
        raise ParameterError("hours", f"must be above 0 and at most {MOST_HOURS:,}, got {hours}")
    recordings = absolute_recordings(files)
    refuse_overwriting(map(Path, recordings), noise_paths(output, sample_rate, hours))
    samples = [read_audio(path, sample_rate)[0] for path in recordings]
    if not samples:
        raise InputError("data noise: name at least one recording, or a folder of them")
    count = write_noise(samples, output, sample_rate, hours, layers, seed)
    print(f"{output}: {3600 * hours:g} s of noise in {count} files")
    return 0


def absolute_recordings(names: tuple[str, ...]) -> list[str]:
    """Audio files, and those in folders, by absolute paths."""
    from ds2.recognition.recordings import find_audio

    return [str(path.absolute()) for path in find_audio(names)] if names else []
