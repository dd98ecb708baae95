"""ds2 segment, filter, make-corpus: from long recordings to a training set."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from ds2.cli.exits import BAD_INPUT, SOME_FAILED, stopping_says
from ds2.cli.options import (
    DEFAULT_FILTER,
    DEFAULT_KNOWN_TEXT,
    DEFAULT_LENGTHS,
    Device,
    Filter,
    FilterOptions,
    KnownText,
    Language,
    Lengths,
    Maybe,
    Model,
    Output,
    Skip,
)
from ds2.cli.overwriting import refuse_overwriting
from ds2.utils.errors import InputError, ParameterError, counted
from ds2.utils.extras import need
from ds2.utils.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from ds2.curation.filter import FilterConfig

LEFT_OUT_SHOWN = 5  # lines of ds2 segment


def segment_command(
    audio: Positional[Path],
    text: Positional[Maybe[Path]] = None,
    output: Output = Path("segments.jsonl"),
    model: Model = DEFAULT_MODEL,
    lengths: Lengths = DEFAULT_LENGTHS,
    skip: Skip = False,
    language: Language = None,
    device: Device = "auto",
) -> int:
    """Cut a long recording into utterances with their transcripts.

    Example: ds2 segment chapter.mp3 chapter.txt --output chapter.jsonl

    Args:
        audio: Recording, of minutes or hours.
        text: Transcript as plain text; without it, the recording is cut where the model recognises no words.
        output: Manifest to write, with offset and duration of each utterance in the recording and, from a text, its
            `words`: each with its start and end in seconds of the utterance, and its confidence.
        lengths: How long the utterances may be.
    """
    from ds2.curation.segment import SegmentConfig, segment
    from ds2.data.manifest import write_manifest
    from ds2.recognition.recognizer import Recognizer
    from ds2.utils.files import check_writable, read_text

    config = SegmentConfig(mean=lengths.mean, shortest=lengths.shortest, longest=lengths.longest)
    check_writable(output)
    recognizer = Recognizer.load(model, device)
    found = segment(recognizer, audio, None if text is None else read_text(text), config, skip, language)
    if not found.utterances:
        raise InputError(f"{audio}: no utterance of {lengths.shortest} to {lengths.longest} s was found")
    write_manifest(output, found.utterances)
    seconds = sum(utterance.duration for utterance in found.utterances)
    average = seconds / len(found.utterances)
    print(f"{output}: {counted(len(found.utterances), 'utterance')}, {average:.1f} s on average, ", end="")
    print(f"{seconds:.0f} s of {found.duration:.0f}")
    left_out = [(*span, "shorter than --shortest") for span in found.too_short]
    left_out += [(*span, "longer than --longest, without a pause where it could be cut") for span in found.too_long]
    for start, end, why in sorted(left_out)[:LEFT_OUT_SHOWN]:
        print(f"left out: {start:.2f} to {end:.2f} s, {why}")
    if (more := len(left_out) - LEFT_OUT_SHOWN) > 0:
        print(f"left out: {more:,} more, {sum(end - start for start, end, _ in left_out):.0f} s in all")
    return 0


def filter_command(
    manifest: Positional[Path],
    output: Output,
    filter: Filter = DEFAULT_FILTER,
    model: Model = DEFAULT_MODEL,
    device: Device = "auto",
) -> int:
    """Leave out utterances whose transcript is probably wrong.

    Example: ds2 filter segments.jsonl --checked checked.jsonl --wer 0.03 --output filtered

    Args:
        manifest: Any manifest, such as that of ds2 segment; an utterance without an id gets file name and offset as id.
        output: Folder for kept.jsonl, rejected.jsonl, filter.json and filter.png.
        filter: Which transcripts to keep.
    """
    from ds2.curation.filter import OUTPUTS
    from ds2.curation.make import filter_manifest
    from ds2.recognition.recognizer import Recognizer

    config = _filter_config(filter)
    inputs = [path for path in (manifest, filter.checked) if path is not None]
    refuse_overwriting(inputs, [output / name for name in OUTPUTS])
    need("matplotlib")
    report, failed = filter_manifest(Recognizer.load(model, device), manifest, output, filter.checked, config)
    print(report.summary)
    for line in failed:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if failed else 0


def make_corpus_command(
    folder: Positional[Path],
    output: Output,
    model: Model = DEFAULT_MODEL,
    filter: Filter = DEFAULT_FILTER,
    lengths: Lengths = DEFAULT_LENGTHS,
    known: KnownText = DEFAULT_KNOWN_TEXT,
    workers: Maybe[int] = None,
    device: Device = "cpu",
) -> int:
    """Make a training set from long recordings and their texts.

    It aligns, cuts and filters the recordings, and writes an HTML report.

    Run the same command again to resume, with another --wer or --keep, or with checked segments.

    Example: ds2 make-corpus recordings/ --output corpus --model english

    Args:
        folder: Folder with recordings of any length, also in subfolders, NAME.mp3 beside NAME.txt.
        output: Folder for kept.jsonl, rejected.jsonl, to_check.jsonl, audio/ and report/index.html.
        filter: Which segments to keep; --checked takes to_check.jsonl, corrected on the report's page.
        lengths: How long the segments may be.
        known: How the texts are read.
        workers: Processes; by default one for each core.
    """
    from ds2.curation.make import CurationConfig, make_corpus
    from ds2.curation.segment import SegmentConfig

    filters = _filter_config(filter)
    need("jinja2", "matplotlib")
    segments = SegmentConfig(mean=lengths.mean, shortest=lengths.shortest, longest=lengths.longest)
    workers = workers or os.cpu_count() or 1
    config = CurationConfig(model, device, workers, known.skip, known.language, filter.checked, segments, filters)
    with stopping_says("run the same command again to continue"):
        corpus = make_corpus(folder, output, config)
    print(corpus.summary)
    print(output / "report" / "index.html")
    for line in corpus.failed:
        print(f"ds2: {line}", file=sys.stderr)
    if corpus.failed:
        return SOME_FAILED if corpus.segments else BAD_INPUT
    return 0


def _filter_config(options: FilterOptions) -> "FilterConfig":
    """Refuses a --wer that would be ignored."""
    from ds2.curation.filter import FilterConfig

    if options.wer is None:
        return FilterConfig(keep=options.keep)
    if options.keep is not None:
        raise ParameterError("wer", "--keep says how many are kept; give one of the two")
    if options.checked is None:
        raise ParameterError("wer", "needs --checked, the true texts of some utterances, or take --keep")
    return FilterConfig(wer=options.wer)
