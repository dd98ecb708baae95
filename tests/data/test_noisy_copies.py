"""Noisy copies: the ratio that was asked for, and the same files with any number of processes."""

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch
from helpers.locks import hold_lock

from ds2.audio.augment import AugmentConfig
from ds2.audio.tensors import read_audio
from ds2.cli.main import main
from ds2.data.manifest import read_manifest
from ds2.data.noisy_copies import MIX, write_noise, write_noisy_copy
from ds2.data.utterance import Utterance
from ds2.utils.config import from_dict, override
from ds2.utils.errors import InputError


@pytest.fixture
def hum(tmp_path: Path) -> Path:
    path = tmp_path / "hum.wav"
    soundfile.write(path, (0.2 * torch.randn(8000, generator=torch.Generator().manual_seed(0))).numpy(), 8000)
    return path


def test_any_number_of_jobs_gives_the_same_files(
    tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path]
) -> None:
    utterances = read_manifest(spoken_digits(6))
    config = replace(MIX, noise=(hum,), noise_layers=(1, 3), channel_probability=0.5, reverberation_probability=0.5)
    for jobs in (1, 2):
        assert write_noisy_copy(utterances, tmp_path / str(jobs), config, 8000, seed=3, jobs=jobs) == []
    one, two = (sorted((tmp_path / str(jobs) / "audio").iterdir()) for jobs in (1, 2))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    copies = read_manifest(tmp_path / "1" / "manifest.jsonl")
    assert [(u.text, u.speaker) for u in copies] == [(u.text, u.speaker) for u in utterances]


def test_the_ratio_is_the_one_asked_for(tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path]) -> None:
    utterances = read_manifest(spoken_digits(3))
    write_noisy_copy(utterances, tmp_path / "noisy", replace(MIX, noise=(hum,), snr=(5.0, 5.0)), 8000)
    for clean, noisy in zip(utterances, read_manifest(tmp_path / "noisy" / "manifest.jsonl"), strict=True):
        speech, both = read_audio(clean.audio_path)[0], read_audio(noisy.audio_path)[0]
        ratio = speech.square().mean() / (both - speech).square().mean()
        assert 10 * math.log10(float(ratio)) == pytest.approx(5.0, abs=0.1)


def test_a_sum_beyond_full_scale_is_softer_at_the_same_ratio(
    tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path]
) -> None:
    [utterance] = read_manifest(spoken_digits(1))
    speech, rate = read_audio(utterance.audio_path)
    loud = speech / speech.abs().max()
    soundfile.write(tmp_path / "loud.wav", loud.numpy(), rate, "FLOAT")
    config = replace(MIX, noise=(hum,), snr=(0.0, 0.0))
    write_noisy_copy([replace(utterance, audio_path=tmp_path / "loud.wav")], tmp_path / "noisy", config, rate)
    both = read_audio(read_manifest(tmp_path / "noisy" / "manifest.jsonl")[0].audio_path)[0]
    scale = both @ loud / (loud @ loud)
    ratio = (scale * loud).square().mean() / (both - scale * loud).square().mean()
    assert scale < 0.8
    assert both.abs().max() == pytest.approx(1.0, abs=1e-3)
    assert 10 * math.log10(float(ratio)) == pytest.approx(0.0, abs=0.5)


def test_broken_utterances_are_told_and_the_others_written(
    tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path]
) -> None:
    utterances = [Utterance(tmp_path / "gone.wav", 1.0, "a"), *read_manifest(spoken_digits(1))]
    [line] = write_noisy_copy(utterances, tmp_path / "noisy", replace(MIX, noise=(hum,)), 8000)
    assert "gone.wav" in line
    assert len(read_manifest(tmp_path / "noisy" / "manifest.jsonl")) == 1
    with pytest.raises(InputError, match="none of the utterances"):
        write_noisy_copy(utterances[:1], tmp_path / "none", MIX, 8000)


def test_a_folder_takes_the_copies_or_the_noise_of_one_process_at_a_time(
    tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path]
) -> None:
    (tmp_path / "noisy").mkdir()
    with hold_lock(tmp_path / "noisy"):
        with pytest.raises(InputError, match="writes into this folder"):
            write_noisy_copy(read_manifest(spoken_digits(1)), tmp_path / "noisy", MIX, 8000)
        with pytest.raises(InputError, match="writes into this folder"):
            write_noise([read_audio(hum)[0]], tmp_path / "noisy", 16000, 1 / 60, (1, 1), seed=1)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_copy_that_cannot_be_written_ends_the_mixing_in_one_line(
    tmp_path: Path, spoken_digits: Callable[[int], Path], capfd: pytest.CaptureFixture[str], jobs: str
) -> None:
    copy = tmp_path / "m" / "audio" / "0000001.flac"
    copy.mkdir(parents=True)  # in the way
    assert main(["data", "mix", str(spoken_digits(4)), "-o", str(tmp_path / "m"), "--jobs", jobs]) == 2
    told = f"ds2: {copy}: cannot be written (a folder, not a file)"
    assert capfd.readouterr().err == f"{told}; the previous file, if any, is intact\n"


def test_noise_is_not_written_over_the_recordings_it_is_made_of(
    tmp_path: Path, hum: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "rec" / "noise00001.flac"
    taken.parent.mkdir()
    soundfile.write(taken, soundfile.read(hum)[0], 8000)
    before = taken.read_bytes()
    command = ["data", "noise", str(taken.parent), "-o", str(taken.parent), "--sample-rate", "8000", "--hours"]
    assert main([*command, "0.02"]) == 2
    assert capsys.readouterr().err == f"ds2: {taken}: is an input and would be overwritten; name another output\n"
    assert list(taken.parent.iterdir()) == [taken]
    assert main([*command, "0.001"]) == 0  # one file, with another name
    assert taken.read_bytes() == before


def test_copies_are_not_written_over_what_is_copied_or_mixed(
    tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, one = tmp_path / "w", str(spoken_digits(1))
    write_noisy_copy(read_manifest(spoken_digits(2)), folder, replace(MIX, noise=(hum,)), 8000)
    manifest = (folder / "manifest.jsonl").rename(folder / "first.jsonl")
    first, second = sorted((folder / "audio").iterdir())
    before = first.read_bytes(), second.read_bytes()
    command = ["data", "mix", "-o", str(folder), "--sample-rate", "8000"]
    named = ["--noise", str(first)], ["--impulse-responses", str(first)], ["--set", f"noise=['{first}']"]
    for arguments in ([str(manifest)], *([one, *each] for each in named)):
        assert main([*command, *arguments]) == 2
        assert capsys.readouterr().err == f"ds2: {first}: is an input and would be overwritten; name another output\n"
    assert main([*command, one, "--noise", str(second)]) == 0  # which no copy is written over
    assert (first.read_bytes() != before[0], second.read_bytes()) == (True, before[1])


def test_a_full_disk_is_named(hum: Path, small_disk: Path, spoken_digits: Callable[[int], Path]) -> None:
    with pytest.raises(InputError, match=r"noise00000\.flac: cannot be written \(No space left on device\)"):
        write_noise([read_audio(hum)[0]], small_disk, 16000, 1 / 60, (1, 1), seed=1)
    assert not list(small_disk.glob("*.flac"))


def test_minutes_of_noise_differ_and_are_equally_loud(tmp_path: Path, hum: Path) -> None:
    recordings = [read_audio(hum)[0]]
    assert write_noise(recordings, tmp_path / "noise", 8000, 2 / 60, (1, 2), seed=1) == 2
    first, second = (read_audio(path)[0] for path in sorted((tmp_path / "noise").glob("*.flac")))
    assert len(first) == len(second) == 60 * 8000
    assert not torch.equal(first, second)
    for noise in (first, second):
        assert 10 * math.log10(float(noise.square().mean())) == pytest.approx(-26, abs=0.1)


def test_the_last_file_of_noise_is_as_long_as_what_is_left(
    tmp_path: Path, hum: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for hours, lengths in (("0.001", [3.6]), ("0.03", [60.0, 48.0])):
        folder = tmp_path / hours
        assert main(["data", "noise", str(hum), "-o", str(folder), "--hours", hours, "--sample-rate", "8000"]) == 0
        assert [soundfile.info(path).duration for path in sorted(folder.glob("*.flac"))] == lengths
        assert capsys.readouterr().out == f"{folder}: {sum(lengths):g} s of noise in {len(lengths)} files\n"


@pytest.mark.parametrize("layers", ["5 2", "-5 -2", "0 1", "1 99999999999999999999"])
def test_impossible_numbers_of_layers_are_refused(
    tmp_path: Path, hum: Path, capsys: pytest.CaptureFixture[str], layers: str
) -> None:
    assert (
        main(["data", "noise", str(hum), "-o", str(tmp_path / "n"), "--hours", "0.001", "--layers", *layers.split()])
        == 2
    )
    refusal = f"--layers: must be two numbers from 1 to 1,000, the smaller first, got {layers}"
    assert capsys.readouterr().err == f"ds2: {refusal}\n"
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("rate", [-8000, 0, 1, 999, 655_351, 2**31, 999_999_999_999])
@pytest.mark.parametrize("command", ["mix", "noise", "shard"])
def test_sample_rates_that_no_file_has_are_refused(
    tmp_path: Path,
    hum: Path,
    spoken_digits: Callable[[int], Path],
    capsys: pytest.CaptureFixture[str],
    command: str,
    rate: int,
) -> None:
    source = hum if command == "noise" else spoken_digits(1)
    options = ["--hours", "0.001"] if command == "noise" else []
    output = ["-o", str(tmp_path / "out"), "--sample-rate", str(rate)]
    assert main(["data", command, str(source), *output, *options]) == 2
    assert capsys.readouterr().err == f"ds2: --sample-rate: must be from 1,000 to 655,350 Hz, got {rate}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rate", ["1000", "655350"])
def test_the_lowest_and_the_highest_sample_rate_can_be_read_again(
    tmp_path: Path, hum: Path, spoken_digits: Callable[[int], Path], rate: str
) -> None:
    manifest = str(spoken_digits(1))
    options = {"noise": [str(hum), "--hours", "0.0005"], "mix": [manifest], "shard": [manifest]}
    for command, arguments in options.items():
        assert main(["data", command, *arguments, "-o", str(tmp_path / command), "--sample-rate", rate]) == 0
    written = [u.audio_path for name in ("mix", "shard") for u in read_manifest(tmp_path / name / "manifest.jsonl")]
    for path in [*written, tmp_path / "noise" / "noise00000.flac"]:
        assert read_audio(path)[1] == int(rate)


def test_the_examples_of_keys_in_the_help_are_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """The help spoke of SECTION.KEY, but the keys are those of one section."""
    main(["data", "mix", "--help"])
    text = " ".join(line.strip("│ ") for line in capsys.readouterr().out.splitlines())
    values: dict[str, object] = {}
    for setting in re.findall(r"--set ('.*?'|\w+=[\d.]+)", text):
        override(values, *shlex.split(setting))
    assert from_dict(AugmentConfig, values, "help") == AugmentConfig(equalizer_probability=0.5, speed=(0.9, 1.1))
