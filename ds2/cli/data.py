"""ds2 data: validate, stats, split, merge, sample, convert, mix, shard."""

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from ds2.cli.exits import SOME_FAILED
from ds2.cli.training import Settings
from ds2.utils.errors import InputError
from ds2.utils.extras import need

SHOWN = 20  # findings on the terminal; all are in the report


def validate(
    manifests: Positional[tuple[Path, ...]],
    report: Path | None = None,
    clean: Path | None = None,
    frame_seconds: float = 0.02,
) -> int:
    """Find what is wrong with a corpus: broken, silent, clipped, duplicate audio, impossible and leaking transcripts.

    Example: ds2 data validate train.jsonl dev.jsonl test.jsonl --report findings.jsonl --clean clean

    Args:
        manifests: The training set first; then those that must share no audio, transcript or speaker with it.
        report: File for all findings, JSON Lines.
        clean: Folder for the manifests without the utterances with findings; of a pair the first manifest's goes.
        frame_seconds: Of the model's output, to find transcripts too long for CTC.
    """
    from collections import Counter

    from ds2.data.manifest import read_manifest, write_manifest
    from ds2.data.validate import ValidateConfig, duplicates, examine_all, leaks, write_findings
    from ds2.utils.files import make_folder
    from ds2.utils.progress import Progress

    if not manifests:
        raise InputError("data validate: name at least one manifest")
    if not frame_seconds > 0:
        raise InputError(f"--frame-seconds {frame_seconds}: must be above 0")
    if clean is not None and len({path.name for path in manifests}) < len(manifests):
        raise InputError(f"--clean {clean}: two manifests have the same name, one would overwrite the other; rename it")
    refuse_overwriting(manifests, [report, *(clean / path.name for path in manifests if clean is not None)])
    splits = {str(path): read_manifest(path) for path in manifests}
    utterances = [utterance for split in splits.values() for utterance in split]
    with Progress("examining", len(utterances), "utterances") as progress:
        examined = examine_all(utterances, ValidateConfig(frame_seconds=frame_seconds), progress.step)
    findings = [finding for item in examined for finding in item.findings]
    findings += [*duplicates(examined), *leaks(splits)]
    for finding in findings[:SHOWN]:
        print(f"{finding.place}: {finding.kind}: {finding.message}")
    if len(findings) > SHOWN:
        print(f"... and {len(findings) - SHOWN} more")
    bad = {finding.place for finding in findings if finding.kind != "leaking speaker"}  # which ds2 data split is for
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(finding.kind for finding in findings).most_common())
    print(f"{len(utterances)} utterances, {len(bad)} with findings: {kinds or 'none'}")
    if report is not None:
        write_findings(report, findings)
    if clean is not None:
        make_folder(clean)
        for name, split in splits.items():
            write_manifest(clean / Path(name).name, [utterance for utterance in split if utterance.place not in bad])
    return SOME_FAILED if findings else 0


def stats(manifest: Positional[Path], picture: Path | None = None) -> int:
    """Show hours, speakers, durations and characters, in figures and as a picture.

    Example: ds2 data stats train.jsonl --picture train.png

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        picture: PNG for durations, speaking rates, speakers and characters.
    """
    from ds2.cli.describe import describe
    from ds2.data.manifest import read_manifest
    from ds2.data.statistics import draw_statistics
    from ds2.recognition.formats import printable

    if picture is not None:
        need("matplotlib")
    print(describe(manifest))
    if picture is not None:
        draw_statistics(picture, read_manifest(manifest), printable(manifest.name))
        print(picture)
    return 0


def split(
    manifest: Positional[Path],
    output: Path,
    dev: float = 0.05,
    test: float = 0.05,
    by: Literal["speaker", "text", "utterance"] = "speaker",
    seed: int = 1,
) -> int:
    """Cut a manifest into train, dev and test; nobody who speaks in one part speaks in another.

    Example: ds2 data split all.jsonl --output corpus --dev 0.1 --test 0.1

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        output: Folder for train.jsonl, dev.jsonl and test.jsonl.
        dev: Share of the hours; 0 makes no such part.
        test: Share of the hours; 0 makes no such part.
        by: What must not be in two parts: speaker, text, or utterance.
        seed: Another seed makes other parts.
    """
    from ds2.data.manifest import read_manifest
    from ds2.data.prepare import write_splits
    from ds2.data.split import split as cut

    refuse_overwriting([manifest], [output / f"{part}.jsonl" for part in ("train", "dev", "test")])
    shares = {name: share for name, share in (("dev", dev), ("test", test)) if share}
    write_splits(output, {"dev": [], "test": [], **cut(read_manifest(manifest), shares, by, seed)})
    return 0


def merge(manifests: Positional[tuple[Path, ...]], output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]) -> int:
    """Join manifests; what is in several of them is taken once.

    Example: ds2 data merge english.jsonl more.jsonl -o all.jsonl

    Args:
        manifests: JSON Lines with audio_filepath, duration, text.
        output: The manifest to write.
    """
    from ds2.data.manifest import read_manifest, write_manifest
    from ds2.data.split import merge as join

    if not manifests:
        raise InputError("data merge: name at least one manifest")
    merged = join([read_manifest(path) for path in manifests])
    write_manifest(output, merged)
    print(f"{output}: {len(merged)} utterances")
    return 0


def sample(
    manifest: Positional[Path], hours: float, output: Annotated[Path, tyro.conf.arg(aliases=["-o"])], seed: int = 1
) -> int:
    """Draw random utterances, so many hours of them.

    Example: ds2 data sample train.jsonl --hours 10 -o train10.jsonl

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        hours: How much is wanted.
        output: The manifest to write.
        seed: Another seed draws others.
    """
    from ds2.data.manifest import read_manifest, write_manifest
    from ds2.data.split import sample as draw

    refuse_overwriting([manifest], [output])
    drawn = draw(read_manifest(manifest), hours, seed)
    write_manifest(output, drawn)
    print(f"{output}: {len(drawn)} utterances, {sum(utterance.duration for utterance in drawn) / 3600:.2f} h")
    return 0


def convert(
    source: Positional[Path],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    from_: Annotated[str, tyro.conf.arg(name="from")] = "",
    to: str = "nemo",
    language: str | None = None,
) -> int:
    """Read a corpus in another layout, look at its audio, and write it in ours or yet another.

    Example: ds2 data convert LibriSpeech/dev-clean -o dev.jsonl --language en

    Args:
        source: Kaldi directory, LibriSpeech folder, Common Voice table, lhotse cuts, NeMo manifest, or parquet.
        output: The manifest, directory, table or cuts to write.
        from_: nemo, kaldi, librispeech, common_voice, lhotse, parquet or webdataset; by default what it looks like.
        to: nemo (our manifests), kaldi, common_voice, lhotse, parquet or webdataset.
        language: Normalise the texts: en, zh, de, ...; by default they stay as they are.
    """
    from ds2.data.convert import convert as change

    refuse_overwriting([source], [output])
    count, skipped = change(source, output, from_, to, language)
    print(f"{output}: {count} utterances")
    return report_skipped(skipped)


def mix(
    manifest: Positional[Path],
    output: Path,
    noise: tuple[str, ...] = (),
    rooms: tuple[str, ...] = (),
    snr: tuple[float, float] = (5.0, 30.0),
    share: float = 1.0,
    layers: tuple[int, int] = (1, 1),
    line_share: float = 0.0,
    set_: Settings = (),
    sample_rate: int = 16000,
    seed: int = 1,
    jobs: int = 1,
) -> int:
    """Write a noisy copy of a corpus: recorded noise at a wanted ratio, rooms, telephone lines and codecs.

    Example: ds2 data mix test.jsonl --output test-5dB --noise noise/ --snr 5 5

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        output: Folder for manifest.jsonl and audio/.
        noise: Recordings of noise, or folders of them; without any it is synthesised.
        rooms: Impulse responses, or folders of them; each utterance is heard in one.
        snr: Signal-to-noise ratio in dB, drawn uniformly between the two.
        share: Of the utterances that get noise.
        layers: Cuts of noise that are summed, at the least and at the most.
        line_share: Of the utterances that go through a telephone line or a codec.
        set_: Any other key of [augment], as in a recipe's train.toml; may be repeated.
        sample_rate: Of the copy, Hz.
        seed: Another seed makes another copy; the number of jobs does not.
        jobs: Processes.
    """
    from ds2.data.augment import AugmentConfig
    from ds2.data.manifest import read_manifest
    from ds2.data.mix import MIX
    from ds2.data.mix import mix as write_mixture
    from ds2.utils.config import from_dict, override, to_dict
    from ds2.utils.progress import Progress

    refuse_overwriting([manifest], [output / "manifest.jsonl"])
    utterances = read_manifest(manifest)
    values = to_dict(MIX) | {"noise": recordings(noise), "rooms": recordings(rooms), "snr": snr, "noise_share": share}
    values |= {"noise_layers": layers, "line_share": line_share, "reverberation_share": float(bool(rooms))}
    values |= {"synthetic_noise_share": float(not noise)}
    for setting in set_:
        override(values, setting)
    config = from_dict(AugmentConfig, values, "data mix")
    with Progress("mixing", len(utterances), "utterances") as progress:
        skipped = write_mixture(utterances, output, config, sample_rate, seed, jobs, progress.step)
    print(output / "manifest.jsonl")
    return report_skipped(skipped)


def noise(
    files: Positional[tuple[str, ...]],
    output: Path,
    hours: float,
    layers: tuple[int, int] = (2, 4),
    sample_rate: int = 16000,
    seed: int = 1,
) -> int:
    """Make hours of noise from minutes: cuts of recordings, summed.

    Example: ds2 data noise recordings/ --output noise --hours 2

    Args:
        files: Recordings of noise, or folders of them.
        output: Folder for FLAC files of a minute each.
        hours: How much is wanted.
        layers: Cuts that are summed, at the least and at the most.
        sample_rate: Hz.
        seed: Another seed makes other noise.
    """
    from ds2.data.audio import read_audio
    from ds2.data.mix import write_noise

    if not 0 < hours < math.inf:
        raise InputError(f"--hours {hours}: must be above 0")
    samples = [read_audio(path, sample_rate)[0] for path in recordings(files)]
    if not samples:
        raise InputError("data noise: name at least one recording, or a folder of them")
    count = write_noise(samples, output, sample_rate, hours, layers, seed)
    print(f"{output}: {count} files of a minute")
    return 0


def shard(
    manifest: Positional[Path],
    output: Path,
    hours: float = 1.0,
    coding: Literal["flac", "opus", "keep"] = "flac",
    sample_rate: int | None = None,
    keep_order: bool = False,
    seed: int = 1,
) -> int:
    """Pack a corpus into tar files that stream well, in webdataset's layout; run again, it goes on where it was.

    Example: ds2 data shard train.jsonl --output shards --hours 2 --coding opus

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        output: Folder for shard-NUMBER.tar and manifest.jsonl, which is used as any other manifest.
        hours: Of audio in a shard.
        coding: flac; opus, at 48, 24, 16, 12 or 8 kHz; or keep, whole files as they are.
        sample_rate: Hz to resample to; by default that of each file.
        keep_order: Utterances are not shuffled over the shards.
        seed: Another seed shuffles otherwise.
    """
    from ds2.data.manifest import read_manifest
    from ds2.data.shards import MANIFEST, ShardConfig, write_shards
    from ds2.utils.progress import Progress

    refuse_overwriting([manifest], [output / MANIFEST])
    utterances = read_manifest(manifest)
    config = ShardConfig(hours, coding, sample_rate, not keep_order, seed)
    with Progress("packing", len(utterances), "utterances") as progress:
        count, skipped = write_shards(utterances, output, config, progress.step)
    print(f"{output / MANIFEST}: {len(utterances) - len(skipped)} utterances in {count} shards")
    return report_skipped(skipped)


def recordings(names: tuple[str, ...]) -> list[str]:
    """Audio files, and those in folders."""
    from ds2.recognition.batch import find_audio

    return [str(path.absolute()) for path in find_audio(names)] if names else []


def refuse_overwriting(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Raises InputError for an output that is an input too: what is left out of it would be lost."""
    read = {path.resolve() for path in inputs}
    for path in outputs:
        if path is not None and path.resolve() in read:
            raise InputError(f"{path}: is read, and would be overwritten; write somewhere else")


def report_skipped(skipped: list[str]) -> int:
    """Tells what was left out on standard error, all of it: it is listed nowhere else; the exit code."""
    for line in skipped:
        print(f"ds2: {line}", file=sys.stderr)
    if skipped:
        print(f"ds2: {len(skipped)} left out", file=sys.stderr)
    return SOME_FAILED if skipped else 0
