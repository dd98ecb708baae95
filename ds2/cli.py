"""The `ds2` command: parses, calls, prints. Heavy imports wait inside the commands, so that help comes at once."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

import ds2
from ds2.errors import InputError

BAD_INPUT = 2  # exit code: nothing was done
SOME_FAILED = 1  # exit code: done, but some files could not be transcribed
INTERRUPTED = 130  # exit code, as shells count it

Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="SECTION.KEY=VALUE")]


def train(config: Positional[Path], output: Path, set_: Settings = (), device: str = "auto") -> int:
    """Train a model by a recipe's TOML file; run the same command again to resume.

    Example: ds2 train recipes/digits/train.toml --output runs/digits --set epochs=4

    Args:
        config: The recipe's train.toml.
        output: Folder for best.safetensors, metrics.jsonl, curves.png and the checkpoint.
        set_: Overrides a key of the configuration; may be repeated.
        device: auto, cpu or cuda.
    """
    from ds2.config import load_config
    from ds2.recognizer import choose_device
    from ds2.train.config import TrainConfig
    from ds2.train.trainer import Trainer

    print(Trainer(load_config(TrainConfig, config, set_), output, choose_device(device)).run())
    return 0


def transcribe(
    files: Positional[tuple[str, ...]],
    model: Path | None = None,
    format: str = "txt",
    output: Path | None = None,
    device: str = "auto",
    beam: int | None = None,
) -> int:
    """Transcribe audio files, folders of them, or standard input (-).

    Example: ds2 transcribe call.wav meetings/ --format srt,json --output transcripts

    Args:
        files: Audio files or folders; - reads one file from standard input.
        model: A bundle; by default the one that comes with the package.
        format: txt, json, srt, vtt, ctm or TextGrid, or several of them with commas between.
        output: Folder for NAME.FORMAT; by default transcripts go to standard output.
        device: auto, cpu or cuda.
        beam: Width of the prefix beam search; 0 decodes greedily; by default what suits the bundle.
    """
    from ds2.formats import FORMATS
    from ds2.progress import Progress
    from ds2.recognizer import Recognizer
    from ds2.transcription import find_audio, transcribe_to

    formats = format.split(",")
    if unknown := [name for name in formats if name not in FORMATS]:
        raise InputError(f"--format {format}: unknown format {unknown[0]!r}; choose of {', '.join(FORMATS)}")
    if not files:
        raise InputError("transcribe: name at least one audio file, a folder, or - for standard input")
    if len(formats) > 1 and output is None:
        raise InputError(f"--format {format}: several formats need --output, the folder to write them to")
    paths = find_audio(files)
    recognizer = Recognizer.load(model, device, beam)
    with Progress("transcribing", len(paths), "files") as progress:
        outcome = transcribe_to(recognizer, paths, formats, output, progress.step)
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
    model: Path | None = None,
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
        model: A bundle; by default the one that comes with the package.
        skip: Speech that is not transcribed may stand before, after and between the lines of the text.
        device: auto, cpu or cuda.
    """
    from ds2.align import align as align_recording
    from ds2.files import make_folder, read_text, whole_file
    from ds2.formats import FORMATS
    from ds2.pictures import draw_alignment
    from ds2.recognizer import Recognizer

    formats = format.split(",")
    if unknown := [name for name in formats if name not in (*FORMATS, "png")]:
        raise InputError(f"--format {format}: unknown format {unknown[0]!r}; choose of {', '.join(FORMATS)}, png")
    recognizer = Recognizer.load(model, device)
    aligned = align_recording(recognizer, audio, read_text(text), skip)
    make_folder(output)
    for name in formats:
        path = output / f"{audio.stem}.{name}"
        if name == "png":
            frame_seconds = recognizer.model.config.frame_seconds
            draw_alignment(path, aligned, recognizer.sample_rate, frame_seconds, recognizer.tokenizer.tokens)
        else:
            with whole_file(path) as partial:
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
    model: Path | None = None,
    listing: Path | None = None,
    device: str = "auto",
    beam: int | None = None,
) -> int:
    """Measure word and character error rate on a manifest.

    Example: ds2 eval data/test.jsonl --model runs/digits/best.safetensors --listing errors.txt

    Args:
        manifest: JSON Lines with audio_filepath, duration, text.
        model: A bundle; by default the one that comes with the package.
        listing: File for the wrong utterances, aligned word by word, and the most frequent confusions.
        device: auto, cpu or cuda.
        beam: Width of the prefix beam search; 0 decodes greedily; by default what suits the bundle.
    """
    from ds2.data.manifest import read_manifest
    from ds2.evaluate import evaluate as measure
    from ds2.files import whole_file
    from ds2.progress import Progress
    from ds2.recognizer import Recognizer

    utterances = read_manifest(manifest)
    recognizer = Recognizer.load(model, device, beam)
    with Progress("evaluating", len(utterances), "utterances") as progress:
        result = measure(recognizer, utterances, progress.step)
    for name, counts, unit in (("WER", result.words, "words"), ("CER", result.characters, "characters")):
        print(f"{name} {counts.rate:.2%} ({counts.errors} errors in {counts.reference_length} {unit}): ", end="")
        print(f"{counts.substitutions} substituted, {counts.deletions} deleted, {counts.insertions} inserted")
    print(f"{result.audio_seconds:.0f} s of audio in {result.compute_seconds:.1f} s: ", end="")
    print(f"real-time factor {result.real_time_factor:.3f}")
    if listing is not None:
        with whole_file(listing) as partial:
            partial.write_text(result.listing, encoding="utf-8")
    for line in result.skipped:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if result.skipped else 0


def info(path: Positional[Path | None] = None, model: str | None = None) -> int:
    """Show what is in a model bundle (.safetensors) or in a manifest (.jsonl), or what a named model consists of.

    Example: ds2 info data/train.jsonl

    Args:
        path: The bundle or the manifest.
        model: Instead of a file: ds2-research, ds2-deploy, ds2-small or ds2-tiny.
    """
    from ds2.info import describe, describe_model

    if (path is None) == (model is None):
        raise InputError("info: name a bundle or a manifest, or a model with --model")
    print(describe_model(model) if model is not None else describe(Path(str(path))))
    return 0


def average(bundles: Positional[tuple[Path, ...]], output: Path) -> int:
    """Average the weights of models that were trained from the same start, with other seeds or data.

    Example: ds2 average runs/seed1/best.safetensors runs/seed2/best.safetensors --output average.safetensors

    Args:
        bundles: Two or more bundles of one configuration.
        output: The bundle to write.
    """
    from ds2.average import average as mean

    mean(bundles).save(output)
    print(output)
    return 0


def lm_build(
    corpus: Positional[tuple[Path, ...]],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    order: int = 3,
    prune: tuple[int, ...] = (),
    vocabulary: int = 0,
    characters: bool = False,
) -> int:
    """Estimate an n-gram model from text, a sentence a line: interpolated modified Kneser-Ney.

    Example: ds2 lm build corpus.txt -o lm.arpa.gz --order 5 --prune 0 0 1

    Args:
        corpus: Text files, plain or .gz.
        output: NAME.arpa or NAME.arpa.gz; any other name gets the compiled form, which loads at once.
        order: Length of the longest n-gram.
        prune: n-grams of each order seen no more often than this are left out; the last figure holds for all longer.
        vocabulary: Most frequent words to keep, the others become <unk>; 0 keeps all.
        characters: A model over characters, as for Mandarin.
    """
    from ds2.decoder.estimate import EstimateConfig
    from ds2.lm import build, describe

    try:
        config = EstimateConfig(order, prune, vocabulary)
    except ValueError as error:
        raise InputError(f"lm build: {error}") from error
    if not corpus:
        raise InputError("lm build: name at least one text file")
    print(describe(build(list(corpus), output, config, characters), output))
    return 0


def lm_score(model: Positional[Path], text: Positional[Path], characters: bool = False) -> int:
    """Measure the perplexity of a text.

    Example: ds2 lm score lm.arpa.gz held-out.txt

    Args:
        model: ARPA, plain or .gz, or the compiled form.
        text: A sentence a line.
        characters: The model is over characters.
    """
    from ds2.decoder.ngram import NGram
    from ds2.lm import perplexity

    value, count, unknown = perplexity(NGram.load(model), text, characters)
    print(f"perplexity {value:.2f} over {count:,} words and sentence ends, {unknown:,} unknown")
    return 0


def lm_info(model: Positional[Path]) -> int:
    """Show what is in a language model.

    Example: ds2 lm info lm.arpa.gz

    Args:
        model: ARPA, plain or .gz, or the compiled form.
    """
    from ds2.decoder.ngram import NGram
    from ds2.lm import describe

    print(describe(NGram.load(model), model))
    return 0


LM_COMMANDS: dict[str, Callable[..., Any]] = {"build": lm_build, "score": lm_score, "info": lm_info}
COMMANDS: dict[str, Callable[..., Any]] = {
    "train": train,
    "transcribe": transcribe,
    "align": align,
    "eval": evaluate,
    "info": info,
    "average": average,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; bad input ends in one line on standard error and code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) == ["--version"]:
        print(f"ds2 {ds2.__version__}")
        return 0
    try:
        if list(arguments[:1]) == ["lm"]:
            return tyro.extras.subcommand_cli_from_dict(
                LM_COMMANDS, prog="ds2 lm", description="N-gram language models.", args=list(arguments[1:])
            )
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="ds2",
            description="End-to-end speech recognition; language models: ds2 lm build, score, info.",
            args=list(arguments),
        )
    except InputError as error:
        print(f"ds2: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: say nothing at exit either
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
