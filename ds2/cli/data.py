"""ds2 data validate, stats, split, merge, sample, convert, shard."""

import functools
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from ds2.cli.exits import SOME_FAILED
from ds2.cli.languages import check_text_language
from ds2.cli.options import Maybe, Output, Paths
from ds2.cli.overwriting import refuse_overwriting
from ds2.utils.errors import InputError, ParameterError, counted, printable
from ds2.utils.extras import need

if TYPE_CHECKING:
    from ds2.data.validate import Finding

SHOWN = 6  # findings of a kind on the terminal; the report holds all


def validate_command(
    manifests: Paths,
    report: Maybe[Path] = None,
    clean: Maybe[Path] = None,
    frame_seconds: float = 0.02,
) -> int:
    """Find errors in audio, transcripts and splits of a data set.

    It finds wrong lines, broken, silent, clipped and duplicate audio, impossible transcripts, and leaks between sets.

    Example: ds2 data validate train.jsonl dev.jsonl test.jsonl --report findings.jsonl --clean clean

    Args:
        manifests: The training set first; then those that must share no audio, transcript or speaker with it.
        report: File for all findings, JSON Lines.
        clean: Folder for the manifests without utterances that have findings; of duplicates the last stays that has
            no other finding. Those of leaking speakers stay, too; ds2 data split divides a set by speaker.
        frame_seconds: Seconds between two output frames of the model, to find transcripts too long for CTC.
    """
    from ds2.data import validate
    from ds2.data.columnar import Joined
    from ds2.data.manifest import read_manifest
    from ds2.utils.progress import Progress

    if not manifests:
        raise InputError("data validate: name at least one manifest")
    if not frame_seconds > 0:
        raise ParameterError("frame_seconds", f"must be above 0, got {frame_seconds}")
    if clean is not None and clean.suffix in (".jsonl", ".arrow"):
        raise ParameterError("clean", f"{clean}: name a folder; it gets a manifest for each of yours, by its name")
    if clean is not None and len({path.name for path in manifests}) < len(manifests):
        raise ParameterError("clean", "two manifests have the same name, one would overwrite the other; rename it")
    refuse_overwriting(manifests, [report, *(clean / path.name for path in manifests if clean is not None)])
    wrong: list[Finding] = []
    refuse = functools.partial(validate.take_wrong_line, wrong)
    splits = {str(path): read_manifest(path, True, refuse) for path in manifests}
    utterances = Joined(list(splits.values()))
    with Progress("examining", len(utterances), "utterances") as progress:
        examined = validate.examine_all(utterances, validate.ValidateConfig(frame_seconds=frame_seconds), progress.step)
    findings = [*wrong, *examined.findings, *validate.duplicates(examined), *validate.leaks(splits)]
    bad = {finding.place for finding in findings if finding.kind != "leaking speaker"}
    lines = f" and {counted(len(wrong), 'wrong line')}" if wrong else ""
    _print_findings(findings, f"{counted(len(utterances), 'utterance')}{lines}, {len(bad)} with findings")
    if report is not None:
        validate.write_findings(report, findings)
    if clean is not None:
        validate.write_clean(clean, splits, bad)
    return SOME_FAILED if findings else 0


def _print_findings(findings: "Sequence[Finding]", counted: str) -> None:
    """The first findings of each kind, how many there are beyond them, and the kinds."""
    kinds = Counter(finding.kind for finding in findings)
    for kind, count in kinds.items():
        for finding in [finding for finding in findings if finding.kind == kind][:SHOWN]:
            print(printable(f"{finding.place}: {finding.kind}: {finding.message}"))
        if count > SHOWN:
            print(f"... and {count - SHOWN:,} more of this kind: {kind}")
    leaking = kinds.pop("leaking speaker", 0)
    none = "none but leaking speakers" if leaking else "none"
    print(f"{counted}: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common()) or none}")
    if leaking:
        print(f"leaking speakers: {leaking}; --clean keeps their utterances, ds2 data split divides a set by speaker")


def compile_manifest_command(manifest: Positional[Path], output: Output) -> int:
    """Compile a manifest of millions of utterances: it opens at once.

    Example: ds2 data compile train.jsonl -o train.arrow

    Args:
        manifest: JSON Lines, or a table in Parquet, with audio_filepath, duration, text.
        output: The compiled manifest to write, NAME.arrow; every command that takes a manifest takes it.
    """
    from ds2.data.compiled import SUFFIX, compile_manifest
    from ds2.utils.files import check_writable
    from ds2.utils.progress import Progress

    need("pyarrow")
    if output.suffix != SUFFIX:
        raise ParameterError("output", f"{output}: a compiled manifest is named NAME{SUFFIX}")
    check_writable(output)
    with Progress("compiling", 0, "utterances") as progress:
        count = compile_manifest(manifest, output, progress.step)
    print(f"{output}: {counted(count, 'utterance')}")
    return 0


def stats_command(manifest: Positional[Path], picture: Maybe[Path] = None) -> int:
    """Show hours, speakers, durations and characters.

    Example: ds2 data stats train.jsonl --picture train.png

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        picture: PNG to write, with durations, speaking rates, speakers and characters.
    """
    from ds2.cli.describe import describe
    from ds2.data.manifest import read_manifest
    from ds2.data.plots import draw_statistics

    if picture is not None:
        need("matplotlib")
    print(describe(manifest))
    if picture is not None:
        draw_statistics(picture, read_manifest(manifest, repeated=True), printable(manifest.name))
        print(picture)
    return 0


def split_command(
    manifest: Positional[Path],
    output: Output,
    dev: float = 0.05,
    test: float = 0.05,
    by: Literal["speaker", "text", "utterance"] = "speaker",
    seed: int = 1,
) -> int:
    """Divide a manifest into train, dev and test by speaker.

    Example: ds2 data split all.jsonl --output corpus --dev 0.1 --test 0.1

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        output: Folder for train.jsonl, dev.jsonl and test.jsonl; those of an earlier split are replaced or removed,
            manifests with other utterances refused.
        dev: Share of the hours; 0 for no dev set.
        test: Share of the hours; 0 for no test set.
        by: What no two subsets may share: speaker, text, or utterance.
        seed: Another seed gives another division.
    """
    from ds2.cli.recipe_scripts import write_splits
    from ds2.data.manifest import read_manifest
    from ds2.data.split import check_earlier, shared_texts, split

    targets = [output / f"{name}.jsonl" for name in ("train", "dev", "test")]
    refuse_overwriting([manifest], targets)
    utterances = read_manifest(manifest)
    shares = {name: share for name, share in (("dev", dev), ("test", test)) if share}
    subsets = {"dev": [], "test": [], **split(utterances, shares, by, seed)}
    check_earlier(targets, utterances)
    old = [name for name, subset in subsets.items() if not subset and (output / f"{name}.jsonl").exists()]
    write_splits(output, subsets)
    for name, path in ((each, output / f"{each}.jsonl") for each in subsets):
        if name in old:
            print(f"ds2: {path}: of an earlier split, removed: this one has no {name} set", file=sys.stderr)
        if by == "speaker" and name != "train" and (shared := shared_texts(subsets["train"], subsets[name])):
            print(f"ds2: {path}: {counted(shared, 'text')} also in train; --by text keeps them apart", file=sys.stderr)
    return 0


def merge_command(manifests: Paths, output: Output) -> int:
    """Join manifests; an utterance that occurs again is kept once.

    Example: ds2 data merge english.jsonl more.jsonl -o all.jsonl

    Args:
        manifests: JSON Lines with audio_filepath, duration, text.
        output: The manifest to write.
    """
    from ds2.data.manifest import read_manifest, write_manifest
    from ds2.data.split import merge

    if not manifests:
        raise InputError("data merge: name at least one manifest")
    parts = [read_manifest(path, repeated=True) for path in manifests]
    write_manifest(output, merged := merge(parts))
    repeated = sum(map(len, parts)) - len(merged)
    left_out = f", {counted(repeated, 'repetition')} left out" if repeated else ""
    print(f"{output}: {counted(len(merged), 'utterance')}{left_out}")
    return 0


def sample_command(
    manifest: Positional[Path], hours: float, output: Output, speakers: Maybe[int] = None, seed: int = 1
) -> int:
    """Draw random utterances of about a number of hours.

    Example: ds2 data sample train.jsonl --hours 10 -o train10.jsonl

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        hours: Hours to draw.
        output: The manifest to write.
        speakers: Draw as many speakers, each with an equal part of the hours.
        seed: Another seed draws other utterances.
    """
    from ds2.data.manifest import read_manifest, write_manifest
    from ds2.data.split import sample, sample_speakers

    utterances = read_manifest(manifest)
    drawn = sample(utterances, hours, seed) if speakers is None else sample_speakers(utterances, speakers, hours, seed)
    write_manifest(output, drawn)
    found = drawn.durations.sum() / 3600
    print(f"{output}: {counted(len(drawn), 'utterance')}, {found:.2f} h")
    if len(drawn) == len(utterances) and found < hours:
        print(f"ds2: {manifest} has {found:.2f} h, not {hours:g}: the sample is the whole", file=sys.stderr)
    return 0


def convert_command(
    source: Positional[Path],
    output: Output,
    from_: Annotated[str, tyro.conf.arg(name="from")] = "",
    to: str = "nemo",
    language: Maybe[str] = None,
) -> int:
    """Convert a data set from one layout to another.

    Example: ds2 data convert LibriSpeech/dev-clean -o dev.jsonl --language en

    Args:
        source: A table (CSV, TSV) with a header (path or file, text or sentence, speaker or client_id, lang ...); a
            folder of NAME.wav with NAME.txt or NAME.lab, of LJ Speech, LibriSpeech or Kaldi; a table of Common Voice;
            lhotse cuts, NeMo manifest, or parquet; transcripts that ds2 transcribe --format json wrote.
            Durations are read from the audio; columns start and end, in seconds, name a part of it.
        output: NAME.jsonl for nemo, NAME.tsv for common_voice, NAME.jsonl.gz for lhotse, NAME.parquet, else a folder.
        from_: table, text_files, transcripts, ljspeech, nemo, kaldi, librispeech, common_voice, lhotse, parquet or
            webdataset; by default it is detected.
        to: nemo (our manifests), kaldi, common_voice, lhotse, parquet or webdataset.
        language: Normalise the texts of this language: en or zh, whose numbers become words, or another such as de; by
            default they stay unchanged.
    """
    from ds2.data.convert import convert

    check_text_language(language)
    count, skipped = convert(source, output, from_, to, language)
    print(f"{output}: {counted(count, 'utterance')}")
    return report_skipped(skipped)


def shard_command(
    manifest: Positional[Path],
    output: Output,
    hours: float = 1.0,
    coding: Literal["flac", "opus", "keep"] = "flac",
    sample_rate: Maybe[int] = None,
    keep_order: bool = False,
    seed: int = 1,
) -> int:
    """Pack a data set into tar files in webdataset's layout.

    Run the same command again to continue after a stop.

    Example: ds2 data shard train.jsonl --output shards --hours 2 --coding opus

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        output: Folder for shard-NUMBER.tar and manifest.jsonl, which is used like any other manifest.
        hours: Hours of audio in a shard.
        coding: flac; opus, at 48, 24, 16, 12 or 8 kHz; or keep, which copies whole files.
        sample_rate: Sample rate to resample to, in Hz; by default that of each file.
        keep_order: Do not shuffle the utterances.
        seed: Another seed gives another order.
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


def report_skipped(skipped: list[str]) -> int:
    """Prints what was left out, which no file lists, on standard error; returns the exit code."""
    for line in skipped:
        print(printable(f"ds2: {line}"), file=sys.stderr)
    if skipped:
        print(f"ds2: {len(skipped)} left out", file=sys.stderr)
    return SOME_FAILED if skipped else 0
