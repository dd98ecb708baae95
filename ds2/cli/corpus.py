"""ds2 segment, filter, make-corpus: from long recordings to a training set."""

import sys
from pathlib import Path
from typing import Any, TypeVar

from tyro.conf import Positional

from ds2.bundle import DEFAULT_MODEL
from ds2.cli.exits import BAD_INPUT, SOME_FAILED
from ds2.utils.errors import InputError
from ds2.utils.extras import need

Config = TypeVar("Config")


def segment(
    audio: Positional[Path],
    text: Positional[Path | None] = None,
    output: Path = Path("segments.jsonl"),
    model: str = DEFAULT_MODEL,
    mean: float = 7.0,
    shortest: float = 1.0,
    longest: float = 20.0,
    skip: bool = False,
    device: str = "auto",
) -> int:
    """Cut a long recording into utterances where nothing is said, with the part of its transcript that each holds.

    Example: ds2 segment chapter.mp3 chapter.txt --output chapter.jsonl

    Args:
        audio: The recording, of minutes or hours.
        text: Its transcript, plain text; without it the recording is cut where the model hears no words.
        output: Manifest to write: offset and duration of each utterance in the recording.
        model: A trained model's bundle, or one in the package: digits (no words but those) or english (any).
        mean: Length of an utterance on average, in seconds.
        shortest: Least length, in seconds.
        longest: Largest length, in seconds.
        skip: Speech that is not transcribed may stand before, after and between the lines of the text.
        device: auto, cpu or cuda.
    """
    from ds2.curation.segment import SegmentConfig
    from ds2.curation.segment import segment as segment_recording
    from ds2.data.manifest import write_manifest
    from ds2.recognition.recognizer import Recognizer
    from ds2.utils.files import check_writable, read_text

    config = _refused(SegmentConfig, mean=mean, shortest=shortest, longest=longest)
    check_writable(output)
    recognizer = Recognizer.load(model, device)
    found = segment_recording(recognizer, audio, None if text is None else read_text(text), config, skip)
    if not found.utterances:
        raise InputError(f"{audio}: no utterance of {shortest} to {longest} s was found")
    write_manifest(output, found.utterances)
    seconds = sum(utterance.duration for utterance in found.utterances)
    print(f"{output}: {len(found.utterances)} utterances, {seconds / len(found.utterances):.1f} s on average, ", end="")
    print(f"{seconds:.0f} s of {found.duration:.0f}; {found.too_short} too short, {found.too_long} too long")
    return 0


def filter(
    manifest: Positional[Path],
    output: Path,
    checked: Path | None = None,
    wer: float = 0.03,
    keep: float | None = None,
    model: str = DEFAULT_MODEL,
    device: str = "auto",
) -> int:
    """Leave out the utterances of a manifest whose transcript is probably wrong.

    Example: ds2 filter segments.jsonl --checked checked.jsonl --wer 0.03 --output filtered

    Args:
        manifest: Any manifest, as of ds2 segment; an utterance is known by its id, else by file name and offset.
        output: Folder for kept.jsonl, rejected.jsonl, filter.json and filter.png.
        checked: JSON Lines of id and true text of some utterances; without it what the model hears is the judge.
        wer: Word error rate of the transcripts that are kept, as estimated on the checked ones; of no use without.
        keep: Share of the utterances to keep, in place of --wer.
        model: A trained model's bundle, or one in the package: digits (no words but those) or english (any).
        device: auto, cpu or cuda.
    """
    from ds2.curation.filter import FilterConfig
    from ds2.curation.make import filter_manifest
    from ds2.recognition.recognizer import Recognizer

    need("matplotlib")
    config = _refused(FilterConfig, wer=wer, keep=keep)
    report, failed = filter_manifest(Recognizer.load(model, device), manifest, output, checked, config)
    print(report.summary)
    for line in failed:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if failed else 0


def make_corpus(
    folder: Positional[Path],
    output: Path,
    model: str = DEFAULT_MODEL,
    checked: Path | None = None,
    wer: float = 0.03,
    keep: float | None = None,
    mean: float = 7.0,
    shortest: float = 1.0,
    longest: float = 20.0,
    skip: bool = False,
    workers: int | None = None,
    device: str = "cpu",
) -> int:
    """Make a training set of a folder of recordings with a .txt beside each: align, cut, filter, and report in HTML.

    Run the same command again to go on after a stop, with another --wer or --keep, or with checked segments.

    Example: ds2 make-corpus recordings/ --output corpus --model english

    Args:
        folder: Recordings, of seconds or hours, in any folders below it, NAME.mp3 beside NAME.txt.
        output: Folder for kept.jsonl, rejected.jsonl, to_check.jsonl, audio/ and report/index.html.
        model: A trained model's bundle, or one in the package: digits (no words but those) or english (any).
        checked: JSON Lines of id and true text: to_check.jsonl, corrected; the report's page helps with that.
        wer: Word error rate of the transcripts that are kept, as estimated on the checked segments; of no use without.
        keep: Share of the segments to keep, in place of --wer.
        mean: Length of a segment on average, in seconds.
        shortest: Least length, in seconds.
        longest: Largest length, in seconds.
        skip: Speech that is not transcribed may stand before, after and between the lines of the texts.
        workers: Processes; by default one for each core.
        device: cpu, cuda or auto.
    """
    import os

    from ds2.curation.filter import FilterConfig
    from ds2.curation.make import CorpusConfig
    from ds2.curation.make import make_corpus as make
    from ds2.curation.segment import SegmentConfig

    need("jinja2", "matplotlib")
    segments = _refused(SegmentConfig, mean=mean, shortest=shortest, longest=longest)
    filters = _refused(FilterConfig, wer=wer, keep=keep)
    config = CorpusConfig(model, device, workers or os.cpu_count() or 1, skip, checked, segments, filters)
    corpus = make(folder, output, config)
    print(corpus.summary)
    print(output / "report" / "index.html")
    for line in corpus.failed:
        print(f"ds2: {line}", file=sys.stderr)
    if corpus.failed:
        return SOME_FAILED if corpus.segments else BAD_INPUT
    return 0


def _refused(kind: type[Config], **values: Any) -> Config:
    """The configuration of these values, or what is wrong with them as an InputError."""
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(str(error)) from error
