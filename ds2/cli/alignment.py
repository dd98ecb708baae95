"""ds2 align: when each word of a known transcript is spoken."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from ds2.cli.exits import BAD_INPUT, SOME_FAILED
from ds2.cli.options import Device, Language, Maybe, Model, Skip, Typed
from ds2.cli.overwriting import refuse_overwriting
from ds2.utils.errors import InputError
from ds2.utils.extras import is_installed, need
from ds2.utils.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from ds2.data.utterance import RecordingSpan
    from ds2.recognition.align import AlignedRecording
    from ds2.recognition.align_batch import AlignmentJob
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.recordings import OutputFolder

    Results = Iterable[tuple[AlignmentJob, AlignedRecording | InputError]]
    Draw = Callable[[AlignedRecording], list[Path]]

PICTURE = "png"
DEFAULT_FORMATS = f"TextGrid,json,ctm,{PICTURE}"


def align_command(
    audio: Positional[Path],
    text: Positional[Maybe[Path]] = None,
    output: Typed[str] = ".",
    format: str = DEFAULT_FORMATS,
    model: Model = DEFAULT_MODEL,
    skip: Skip = False,
    language: Language = None,
    device: Device = "auto",
) -> int:
    """Find when each word of a known transcript is spoken.

    A * in the text stands for speech that is not transcribed. Standard error says which words are doubtful, and where
    the text lacks speech; everything is written.

    Example: ds2 align chapter.mp3 chapter.txt --output aligned; ds2 align interviews/ --format TextGrid

    Args:
        audio: Recording of any length, or a folder of recordings.
        text: Transcript as plain text or subtitles (.srt, .vtt), whose cues remain, or a folder of texts; by default
            NAME.txt or NAME.lab beside NAME.wav. A folder of texts may hold subtitles as well.
        output: Folder for NAME.FORMAT, or for one recording a file such as talk.TextGrid.
        format: TextGrid (words and characters), json, ctm, srt, vtt, tsv, txt, png (plots, by matplotlib; of a long
            recording the five half minutes with the most doubtful words), several of them separated by commas, or all.
    """
    from ds2.data.utterance import RecordingSpan
    from ds2.recognition.align_batch import align_all, find_alignment_jobs
    from ds2.recognition.formats import FORMATS, choose_formats
    from ds2.recognition.recognizer import Recognizer
    from ds2.recognition.recordings import make_output, output_formats, total_seconds
    from ds2.utils.progress import Progress

    formats = choose_formats(format, (*FORMATS, PICTURE))
    if PICTURE in formats and format != DEFAULT_FORMATS:
        need("matplotlib")
    pairs = find_alignment_jobs(audio, text)
    formats = output_formats(output, formats, DEFAULT_FORMATS.split(","), len(pairs))
    if PICTURE in formats and format == DEFAULT_FORMATS and not is_installed("matplotlib"):
        formats.remove(PICTURE)  # which nobody asked for
    tables = [name for name in formats if name != PICTURE]
    recordings = [RecordingSpan(pair.audio) for pair in pairs]
    folder = make_output(output, tables, recordings)
    _check_all_inputs(folder, pairs, recordings, PICTURE in formats)
    recognizer = Recognizer.load(model, device)
    folder.make()
    draw: Draw = partial(_pictures, recognizer, folder=folder) if PICTURE in formats else lambda aligned: []
    with Progress("aligning", round(total_seconds(recordings)), "s of audio") as progress:
        results = align_all(recognizer, pairs, folder, skip, language, progress.step)
        return _show_alignments(results, folder, draw, len(pairs) > 1, skip)


def _check_all_inputs(
    folder: "OutputFolder", pairs: "list[AlignmentJob]", recordings: "list[RecordingSpan]", pictures: bool
) -> None:
    """Refuses to write over any recording or text of the run, and over a text that lies beside its recording."""
    inputs = [path for pair in pairs for path in (pair.audio, pair.text) if path is not None]
    drawn = folder.folder.glob(f"*.{PICTURE}") if pictures else ()  # how many each gets is not known yet
    failures = folder.failures if len(pairs) > 1 else None
    refuse_overwriting(inputs, [*folder.outputs(recordings), *drawn, failures])
    folder.check_texts(recordings)


def _show_alignments(results: "Results", folder: "OutputFolder", draw: "Draw", several: bool, skip: bool) -> int:
    """Prints the files of each recording, its doubtful words, and what failed; the exit code.

    Of several, those without a text share one line.
    """
    from ds2.data.utterance import RecordingSpan
    from ds2.utils.errors import printable, some_of

    done = failed = 0
    without_text = []
    for pair, aligned in results:
        if isinstance(aligned, InputError):
            failed += 1
            if several and pair.text is None:
                without_text.append(printable(str(pair.audio)))
            else:
                print(f"ds2: {aligned}", file=sys.stderr)
            continue
        done += 1
        print(*folder.paths(RecordingSpan(pair.audio)).values(), *draw(aligned), sep="\n", flush=True)
        _report_doubtful(aligned, f"{printable(str(pair.audio))}: " if several else "", skip)
    if without_text:
        print(f"ds2: no text NAME.txt or NAME.lab for {some_of(without_text)}", file=sys.stderr)
    if failed and several:
        print(f"ds2: {done} aligned, {failed} failed", file=sys.stderr)
    return BAD_INPUT if not done else SOME_FAILED if failed else 0


def _pictures(recognizer: "Recognizer", aligned: "AlignedRecording", folder: "OutputFolder") -> list[Path]:
    """Draws the pages of an alignment."""
    from ds2.data.utterance import RecordingSpan
    from ds2.recognition.plots import draw_alignment

    name, frame_seconds = folder.targets[RecordingSpan(aligned.audio)].name, recognizer.model.config.frame_seconds
    return draw_alignment(folder.folder, name, aligned, recognizer.sample_rate, frame_seconds)


def _report_doubtful(aligned: "AlignedRecording", name: str, skip: bool) -> None:
    """Prints a line for each doubtful word and for speech that the text lacks; that of stars where `skip` set them."""
    for word in aligned.doubtful:
        place = f"{word.start:.2f}-{word.end:.2f} s"
        print(f"ds2: {name}{place}: {word.text!r} is doubtful ({word.confidence:.2f})", file=sys.stderr)
    remedy = "" if skip else "; write it there, or * in its place, or take --skip"
    for start, end in aligned.transcript.untranscribed:
        print(f"ds2: {name}{start:.2f}-{end:.2f} s: speech that the text lacks{remedy}", file=sys.stderr)
