"""ds2 transcribe, align, eval, info: what one does with a model."""

import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.bundle import DEFAULT_MODEL
from ds2.cli.exits import BAD_INPUT, SOME_FAILED
from ds2.recognition.options import DEFAULT_OPTIONS, DecoderOptions
from ds2.utils.errors import InputError
from ds2.utils.extras import need

Decoder = Annotated[DecoderOptions, tyro.conf.arg(name="")]


def transcribe(
    files: Positional[tuple[str, ...]],
    model: str = DEFAULT_MODEL,
    format: str = "txt",
    output: Path | None = None,
    device: str = "auto",
    decoder: Decoder = DEFAULT_OPTIONS,
) -> int:
    """Transcribe audio files, folders of them, or standard input (-).

    Example: ds2 transcribe call.wav meetings/ --format srt,json --output transcripts

    Args:
        files: Audio files or folders; - reads one file from standard input.
        model: A trained model's bundle, or one in the package: digits (no words but those) or english (any).
        format: txt, json, srt, vtt, ctm or TextGrid, or several of them with commas between.
        output: Folder for NAME.FORMAT; by default transcripts go to standard output.
        device: auto, cpu or cuda.
        decoder: How to search.
    """
    from ds2.recognition.batch import count_unread, find_audio, transcribe_to
    from ds2.recognition.formats import FORMATS, ONE_A_FILE
    from ds2.recognition.recognizer import Recognizer
    from ds2.utils.progress import Progress

    formats = format.split(",")
    if unknown := [name for name in formats if name not in FORMATS]:
        raise InputError(f"--format {format}: unknown format {unknown[0]!r}; choose of {', '.join(FORMATS)}")
    if not files:
        raise InputError("transcribe: name at least one audio file, a folder, or - for standard input")
    if len(formats) > 1 and output is None:
        raise InputError(f"--format {format}: several formats need --output, the folder to write them to")
    paths = find_audio(files)
    if len(paths) > 1 and format in ONE_A_FILE and output is None:
        raise InputError(f"--format {format}: of several recordings it needs --output, the folder for a file of each")
    recognizer = Recognizer.load(model, device, decoder)
    with Progress("transcribing", len(paths), "files") as progress:
        outcome = transcribe_to(recognizer, paths, formats, output, progress.step)
    if unread := count_unread(files):
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in unread.most_common())
        print(f"ds2: not transcribed: {kinds}; convert them first: ffmpeg -i call.m4a call.wav", file=sys.stderr)
    if outcome.failed:
        if len(paths) > 1:
            print(f"ds2: {outcome.done} transcribed, {len(outcome.failed)} failed", file=sys.stderr)
        return SOME_FAILED if outcome.done else BAD_INPUT
    return 0


def align(
    audio: Positional[Path],
    text: Positional[Path],
    output: Path = Path("."),
    format: str = "TextGrid,json,ctm,png",
    model: str = DEFAULT_MODEL,
    skip: bool = False,
    device: str = "auto",
) -> int:
    """Find when each word of a known transcript is said; a * in the text stands for speech that is not transcribed.

    Example: ds2 align chapter.mp3 chapter.txt --output aligned

    Args:
        audio: The recording, of seconds or hours.
        text: Its transcript, plain text.
        output: Folder for NAME.FORMAT.
        format: TextGrid, json, ctm, srt, vtt, txt or png (a picture), or several of them with commas between.
        model: A trained model's bundle, or one in the package: digits (no words but those) or english (any).
        skip: Speech that is not transcribed may stand before, after and between the lines of the text.
        device: auto, cpu or cuda.
    """
    from ds2.recognition.align import align as align_recording
    from ds2.recognition.formats import FORMATS
    from ds2.recognition.plots import draw_alignment
    from ds2.recognition.recognizer import Recognizer
    from ds2.utils.files import atomic_write, make_folder, read_text

    formats = format.split(",")
    if unknown := [name for name in formats if name not in (*FORMATS, "png")]:
        raise InputError(f"--format {format}: unknown format {unknown[0]!r}; choose of {', '.join(FORMATS)}, png")
    if "png" in formats:
        need("matplotlib")
    words = read_text(text)
    recognizer = Recognizer.load(model, device)
    make_folder(output)
    aligned = align_recording(recognizer, audio, words, skip)
    for name in formats:
        path = output / f"{audio.stem}.{name}"
        if name == "png":
            frame_seconds = recognizer.model.config.frame_seconds
            draw_alignment(path, aligned, recognizer.sample_rate, frame_seconds)
        else:
            with atomic_write(path) as partial:
                partial.write_text(FORMATS[name](aligned.transcript, str(audio)), encoding="utf-8")
        print(path)
    for word in aligned.doubtful:
        print(
            f"ds2: {word.start:.2f}-{word.end:.2f} s: {word.text!r} is doubtful ({word.confidence:.2f})",
            file=sys.stderr,
        )
    return SOME_FAILED if aligned.doubtful else 0


def evaluate(
    manifest: Positional[Path],
    model: str = DEFAULT_MODEL,
    listing: Path | None = None,
    device: str = "auto",
    decoder: Decoder = DEFAULT_OPTIONS,
) -> int:
    """Measure word and character error rate on a manifest.

    Example: ds2 eval data/test.jsonl --model runs/digits/best.safetensors --listing errors.txt

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        model: A trained model's bundle, or one in the package: digits (no words but those) or english (any).
        listing: File for the wrong utterances, aligned word by word, and the most frequent confusions.
        device: auto, cpu or cuda.
        decoder: How to search.
    """
    from ds2.data.manifest import read_manifest
    from ds2.recognition.evaluate import beyond_alphabet
    from ds2.recognition.evaluate import evaluate as measure
    from ds2.recognition.recognizer import Recognizer
    from ds2.utils.files import atomic_write, check_writable
    from ds2.utils.progress import Progress

    check_writable(listing)
    utterances = read_manifest(manifest)
    recognizer = Recognizer.load(model, device, decoder)
    if line := beyond_alphabet(recognizer.tokenizer, utterances):
        print(f"ds2: {line}", file=sys.stderr)
    with Progress("evaluating", len(utterances), "utterances") as progress:
        result = measure(recognizer, utterances, progress.step)
    for name, counts, unit in (("WER", result.words, "words"), ("CER", result.characters, "characters")):
        print(f"{name} {counts.rate:.2%} ({counts.errors} errors in {counts.reference_length} {unit}): ", end="")
        print(f"{counts.substitutions} substituted, {counts.deletions} deleted, {counts.insertions} inserted")
    print(f"{result.audio_seconds:.0f} s of audio in {result.compute_seconds:.1f} s: ", end="")
    print(f"real-time factor {result.real_time_factor:.3f}")
    if listing is not None:
        with atomic_write(listing) as partial:
            partial.write_text(result.listing, encoding="utf-8")
    for line in result.skipped:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if result.skipped else 0


def info(path: Positional[Path | None] = None, model: str | None = None) -> int:
    """Show what is in a trained model (.safetensors) or a manifest (.jsonl), or what layers an architecture has.

    Example: ds2 info digits

    Args:
        path: A trained model's bundle, the name of one in the package (digits, english), or a manifest.
        model: Instead, an architecture to be trained, [model] preset: ds2-research, ds2-deploy, ds2-small, ds2-tiny.
    """
    from ds2.cli.describe import describe, describe_model

    if (path is None) == (model is None):
        raise InputError("info: name a bundle or a manifest, or an architecture with --model")
    print(describe_model(model) if model is not None else describe(Path(str(path))))
    return 0
