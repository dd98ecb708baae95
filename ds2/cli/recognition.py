"""ds2 transcribe, eval, info: using a trained model."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from ds2.cli.error_rates import report_evaluation
from ds2.cli.exits import BAD_INPUT, SOME_FAILED, stopping_says
from ds2.cli.options import (
    DEFAULT_COMPUTE,
    DEFAULT_EVALUATION,
    DEFAULT_MESSAGES,
    DEFAULT_SEARCH,
    DEFAULT_TEXT,
    DEFAULT_TRANSCRIPTS,
    Compute,
    Evaluations,
    Files,
    Maybe,
    Messages,
    Model,
    Normalize,
    Search,
    Text,
    Transcripts,
    Typed,
)
from ds2.cli.overwriting import refuse_overwriting
from ds2.cli.references import choose_form, comparable_references, tell_of_other_forms
from ds2.cli.standard_streams import standard_input
from ds2.utils.errors import InputError, ParameterError, counted, printable
from ds2.utils.extras import need
from ds2.utils.model_names import DEFAULT_MODEL, check_language

if TYPE_CHECKING:
    from ds2.data.utterance import RecordingSpan, Utterance
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.recordings import OutputFolder
    from ds2.recognition.transcript import Transcript

    Results = Iterator[tuple[RecordingSpan, Transcript | InputError]]

GO_ON = "add --skip-existing to transcribe the rest"


def transcribe_command(
    files: Files,
    model: Model = DEFAULT_MODEL,
    output: Typed[Maybe[str]] = None,
    transcripts: Transcripts = DEFAULT_TRANSCRIPTS,
    messages: Messages = DEFAULT_MESSAGES,
    compute: Compute = DEFAULT_COMPUTE,
    decoder: Text = DEFAULT_TEXT,
) -> int:
    """Transcribe audio files, folders of them, or standard input.

    On standard output one recording's text stands alone; each segment of several has a line: the name, a tab, the text.

    Example: ds2 transcribe call.wav meetings/ --format srt,json --output transcripts

    Args:
        files: Audio files, folders, patterns such as 'calls/*.wav', or manifests; - reads standard input.
        output: Folder for NAME.FORMAT, or for one recording a file such as talk.srt; by default standard output.
        transcripts: What is transcribed and written.
        compute: Device and engine.
        decoder: Options of the search.
    """
    from ds2.recognition.formats import choose_formats
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.recordings import find_recordings, output_formats, transcribe_all, unread

    logging.getLogger("ds2").setLevel(logging.ERROR if messages.quiet else logging.NOTSET)
    if not files:
        raise InputError("transcribe: name at least one audio file, a folder, or - for standard input")
    recordings, output = find_recordings(files), None if output == "-" else output
    formats = output_formats(output, choose_formats(transcripts.format), ["txt"], len(recordings))
    _check_outputs(formats, output, len(recordings), transcripts.skip_existing)
    separate = _separate(transcripts, formats, recordings[0])
    if transcripts.language is not None:
        check_language(transcripts.language, model)
    folder = _safe_output(output, formats, files, recordings, transcripts.skip_existing)
    recognizer = Recognizer.load(model, compute.device, decoder, compute.engine, compute.precision)
    if transcripts.alternatives is not None:
        recognizer = recognizer.with_alternatives(transcripts.alternatives)
    if folder is not None:
        recordings = _to_do(folder, recordings, transcripts.skip_existing, messages.quiet)
    with _progress(recordings, messages.quiet, separate) as on_audio, stopping_says(GO_ON if folder else ""):
        if recordings and files[0] == "-":
            results = _standard_input(recognizer, recordings[0], folder)
        else:
            results = transcribe_all(recognizer, recordings, folder, on_audio, separate)
        done, failed = _show_texts(results, formats if folder is None else (), len(recordings) > 1, messages.verbose)
    if not messages.quiet and (line := unread(files)):
        print(f"ds2: {line}", file=sys.stderr)
    return _exit_code(done, failed, len(recordings))


def _exit_code(done: int, failed: int, recordings: int) -> int:
    """Of so many recordings; says how many failed, if there were several."""
    if failed and recordings > 1:
        print(f"ds2: {done} transcribed, {failed} failed", file=sys.stderr)
    return 0 if not failed else SOME_FAILED if done else BAD_INPUT


def _check_outputs(formats: Sequence[str], output: str | None, count: int, skip_existing: bool) -> None:
    """Refuses what standard output cannot hold."""
    from ds2.recognition.formats import ONE_A_FILE

    if output is not None:
        return
    if skip_existing:
        raise ParameterError("skip_existing", "needs --output, the folder with the transcripts")
    if len(formats) > 1:
        raise ParameterError("format", f"{','.join(formats)}: several formats need --output, the folder for the files")
    if count > 1 and formats[0] in ONE_A_FILE:
        raise ParameterError(
            "format", f"{formats[0]}: several recordings need --output, the folder for one file for each"
        )


def _separate(transcripts: Transcripts, formats: Sequence[str], first: "RecordingSpan") -> bool:
    """Whether channels are transcribed each by itself. Refuses what cannot be done to them, or written."""
    from ds2.recognition.formats import SEVERAL_TEXTS
    from ds2.recognition.output_names import STDIN

    separate, several = transcripts.channels == "separate", transcripts.alternatives is not None
    if separate and first.path == STDIN:
        raise ParameterError("channels", "separate: standard input is mixed; name a file")
    if separate and several:
        raise ParameterError("alternatives", "cannot be combined with separate channels; split them into files")
    if several and (lacking := [format for format in formats if format not in SEVERAL_TEXTS]):
        known = " and ".join(SEVERAL_TEXTS)
        raise ParameterError("alternatives", f"the format {lacking[0]} holds one text; {known} hold several")
    return separate


def _safe_output(
    output: str | None,
    formats: Sequence[str],
    files: Files,
    recordings: "Sequence[RecordingSpan]",
    skip_existing: bool,
) -> "OutputFolder | None":
    """Where the transcripts go; never over a recording, a manifest, or a text that lies beside its recording."""
    from ds2.recognition.recordings import make_output

    if output is None:
        return None
    folder = make_output(output, formats, recordings)
    to_do = folder.missing(recordings) if skip_existing else recordings
    inputs = [*map(Path, files), *(recording.path for recording in recordings)]
    refuse_overwriting(inputs, [*folder.outputs(to_do), folder.failures])
    folder.keeps_existing = skip_existing
    if not skip_existing:
        folder.check_texts(recordings)
    return folder


def _to_do(
    folder: "OutputFolder", recordings: "list[RecordingSpan]", skip_existing: bool, quiet: bool
) -> "list[RecordingSpan]":
    """The recordings to transcribe; says how many are skipped because they have transcripts, or get new ones.

    Makes the folder.
    """
    folder.make()
    if not skip_existing:
        if (count := folder.replaced(recordings)) and not quiet:
            print(f"ds2: {folder.folder}: earlier transcripts that are replaced: {count}", file=sys.stderr)
        return recordings
    missing = folder.missing(recordings)
    if not quiet:
        there = len(recordings) - len(missing)
        print(f"ds2: {there} of {len(recordings)} transcribed before, {len(missing)} to do", file=sys.stderr)
    return missing


@contextlib.contextmanager
def _progress(
    recordings: "Sequence[RecordingSpan]", quiet: bool, separate: bool
) -> Iterator[Callable[[float], object]]:
    """A bar in seconds of audio, on a terminal."""
    from itertools import chain

    from ds2.recognition.channels import split_channels
    from ds2.recognition.recordings import total_seconds
    from ds2.utils.progress import Progress

    if quiet or not sys.stderr.isatty():
        yield lambda seconds: None
        return
    total = total_seconds(list(chain.from_iterable(map(split_channels, recordings))) if separate else recordings)
    with Progress("transcribing", round(total), "s of audio") as progress:
        yield lambda seconds: progress.step(seconds)


def _standard_input(recognizer: "Recognizer", recording: "RecordingSpan", folder: "OutputFolder | None") -> "Results":
    """The one recording that comes on standard input."""
    from ds2.audio.files import read_audio_bytes_array

    samples, rate = read_audio_bytes_array(standard_input(), recognizer.sample_rate, "stdin")
    transcript = recognizer.transcribe(samples, rate)
    if folder is not None:
        folder.write(recording, transcript)
        folder.report([])
    yield recording, transcript


def _show_texts(results: "Results", formats: Sequence[str], several: bool, verbose: bool) -> tuple[int, int]:
    """Prints transcripts in these formats, and what failed; how many were done, and how many failed."""
    from ds2.recognition.formats import FORMATS

    done = failed = 0
    for recording, result in results:
        name = printable(str(recording))
        if isinstance(result, InputError):
            failed += 1
            print(f"ds2: {result}", file=sys.stderr)
            continue
        done += 1
        if warning := result.warning or ("" if result.words else "no speech was found"):
            logging.getLogger(__name__).warning("%s: %s", name, warning)
        for format in formats:
            text = FORMATS[format](result, str(recording))
            if format == "txt" and several:
                text = "".join(f"{name}\t{line}\n" for line in text.splitlines() or [""])
            print(text, end="", flush=True)
        if verbose:
            print(f"ds2: {name}: {result.duration:.1f} s, {counted(len(result.words), 'word')}", file=sys.stderr)
    return done, failed


def evaluate_command(
    manifest: Positional[Path],
    model: Model = DEFAULT_MODEL,
    outputs: Evaluations = DEFAULT_EVALUATION,
    normalize: Normalize = None,
    compute: Compute = DEFAULT_COMPUTE,
    decoder: Search = DEFAULT_SEARCH,
) -> int:
    """Measure error rates and the confidence of words on a manifest.

    Example: ds2 eval data/test.jsonl --model runs/digits/best.safetensors --listing errors.txt

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        outputs: What is compared and written.
        compute: Device and engine.
        decoder: Options of the search.
    """
    from ds2.data.manifest import read_manifest
    from ds2.recognition.compared_transcripts import comparable_texts, open_other
    from ds2.recognition.error_intervals import check_field
    from ds2.recognition.evaluate import evaluate
    from ds2.recognition.readings import both_forms
    from ds2.recognition.recognizer import Recognizer
    from ds2.utils.files import check_writable
    from ds2.utils.progress import Progress

    check_writable(outputs.listing, outputs.page, outputs.calibration)
    if outputs.calibration is not None:
        need("matplotlib")
    utterances: Sequence[Utterance] = read_manifest(manifest)
    for field in outputs.by:
        check_field(field, utterances)
    others = {name: open_other(name, utterances, compute.device) for name in outputs.against}
    recognizer = Recognizer.load(model, compute.device, decoder, compute.engine, compute.precision)
    written = [text for other in others.values() if isinstance(other, Mapping) for text in other.values()]
    normalize = choose_form(recognizer.tokenizer, utterances, normalize, written)
    utterances = comparable_references(recognizer.tokenizer, utterances, normalize)
    with Progress("evaluating", len(utterances), "utterances") as progress:
        result = evaluate(recognizer, utterances, progress.step, both_forms(normalize))
    texts = {name: comparable_texts(each, result, recognizer.tokenizer, normalize) for name, each in others.items()}
    tell_of_other_forms(recognizer.tokenizer, result, normalize)
    return report_evaluation(result, recognizer.name, texts, outputs)


def info_command(path: Positional[Maybe[Path]] = None, model: Maybe[str] = None) -> int:
    """Describe a trained model, a manifest or an architecture.

    Example: ds2 info digits

    Args:
        path: Bundle of a trained model (.safetensors), the name of one, a manifest (.jsonl), or a recipe's train.toml,
            whose network is shown with 29 outputs.
        model: Describe this architecture ([model] preset) instead: ds1, ds2-research, ds2-deploy, ds2-small, ds2-tiny.
    """
    from ds2.cli.describe import describe, describe_model

    if (path is None) == (model is None):
        raise InputError("info: name a bundle or a manifest, or an architecture with --model")
    print(describe_model(model) if model is not None else describe(Path(str(path))))
    return 0
