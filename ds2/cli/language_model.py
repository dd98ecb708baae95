"""ds2 lm build, compile, score, info; ds2 tune-decoder."""

import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.cli.exits import SOME_FAILED
from ds2.errors import InputError
from ds2.extras import need


def build(
    corpus: Positional[tuple[Path, ...]],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    order: int = 3,
    prune: tuple[int, ...] = (),
    vocabulary: int = 0,
    memory: float = 1000.0,
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
        memory: MB for sorting, with temporary files for what is larger; the words and the model itself come on top.
        characters: A model over characters, as for Mandarin.
    """
    from ds2.decoder.estimate import EstimateConfig
    from ds2.files import check_writable
    from ds2.lm import build as build_model
    from ds2.lm import describe

    try:
        config = EstimateConfig(order, prune, vocabulary, memory)
    except ValueError as error:
        raise InputError(f"lm build: {error}") from error
    if not corpus:
        raise InputError("lm build: name at least one text file")
    check_writable(output)
    print(describe(build_model(list(corpus), output, config, characters), output))
    return 0


def compile(
    model: Positional[Path], output: Annotated[Path, tyro.conf.arg(aliases=["-o"])], quantize: bool = False
) -> int:
    """Bring a model into the compiled form, which loads at once.

    Example: ds2 lm compile lm.arpa.gz -o lm.compiled --quantize

    Args:
        model: ARPA, plain or .gz, or the compiled form.
        output: The file to write.
        quantize: In two thirds of the room; log-probabilities are rounded to 1/1024, none is below -32.
    """
    from ds2.decoder.ngram import NGram
    from ds2.files import check_writable
    from ds2.lm import ARPA_NAMES, describe

    if output.name.endswith(ARPA_NAMES):
        raise InputError(f"--output {output}: the compiled form is no ARPA; name it otherwise")
    check_writable(output)
    compiled = NGram.load(model)
    compiled = compiled.quantized() if quantize else compiled
    compiled.save(output)
    print(describe(compiled, output))
    return 0


def score(model: Positional[Path], text: Positional[Path], characters: bool = False) -> int:
    """Measure how well a language model foretells a text: its perplexity, the lower the better.

    Example: ds2 lm score lm.arpa.gz held-out.txt

    Args:
        model: ARPA, plain or .gz, the compiled form, or KenLM's binary form.
        text: A sentence a line.
        characters: The model is over characters.
    """
    from ds2.decoder.rescore import load_sentence_model
    from ds2.lm import perplexity

    value, count, unknown = perplexity(load_sentence_model(model), text, characters)
    print(f"perplexity {value:.2f} over {count:,} words and sentence ends, {unknown:,} unknown")
    return 0


def info(model: Positional[Path]) -> int:
    """Show what is in a language model.

    Example: ds2 lm info lm.arpa.gz

    Args:
        model: ARPA, plain or .gz, or the compiled form.
    """
    from ds2.decoder.ngram import NGram
    from ds2.lm import describe

    print(describe(NGram.load(model), model))
    return 0


def tune_decoder(
    manifest: Positional[Path],
    model: Path,
    lm: Path | None = None,
    output: Path | None = None,
    picture: Path | None = None,
    closed: bool = False,
    lexicon: Path | None = None,
    device: str = "auto",
) -> int:
    """Choose the decoder's weights and beam on held-out utterances; bundle them with the language model.

    Example: ds2 tune-decoder data/dev.jsonl --model best.safetensors --lm lm.arpa.gz --output with-lm.safetensors

    Args:
        manifest: Utterances that neither model was trained on.
        model: The bundle.
        lm: ARPA, plain or .gz, or the compiled form; by default the bundle's own.
        output: The bundle to write; by default the model's own file, if it has one.
        picture: PNG of the error rate over both weights and over the beam.
        closed: No words but the language model's are found: right for commands, wrong for names.
        lexicon: Pronunciations, as CMUdict's, of the language model's words: the search is by phones.
        device: auto, cpu or cuda.
    """
    from ds2.bundle import Bundle
    from ds2.data.manifest import read_manifest
    from ds2.data.pronunciation import read_pronunciations
    from ds2.decoder_options import DecoderOptions
    from ds2.decoder_tuning import MOST_DECODINGS, choose_model, draw, tune, tuned_bundle
    from ds2.decoding import load_search_model
    from ds2.evaluate import beyond_alphabet
    from ds2.files import check_writable
    from ds2.progress import Progress
    from ds2.recognizer import Recognizer

    if output is None and not model.exists():
        raise InputError(f"--model {model}: one of the package; name the file to write with --output")
    if picture is not None:
        need("matplotlib")
    utterances, bundle = read_manifest(manifest), Bundle.load(model)
    check_writable(output or model, picture)
    chosen = choose_model(bundle, load_search_model(lm) if lm is not None else None, model)
    recognizer = Recognizer.load(model, device, DecoderOptions(beam=0))
    pronunciations = read_pronunciations(lexicon) if lexicon is not None else {}
    if pronunciations and not recognizer.model.config.phones:
        raise InputError(f"--lexicon: {model} knows no phones; train it with data.lexicon")
    if line := beyond_alphabet(recognizer.tokenizer, utterances):
        print(f"ds2: {line}", file=sys.stderr)
    with Progress("tuning", MOST_DECODINGS, "decodings") as progress:
        tuning = tune(recognizer, chosen, utterances, closed, progress.step, pronunciations)
    tuned_bundle(bundle, tuning, chosen, pronunciations).save(output or model)
    config, rate = tuning.config, tuning.widths[tuning.config.beam_width]
    print(f"{tuning.unit} {rate:.2%} (greedy {tuning.greedy:.2%}) at lm_weight {config.lm_weight:g}, ", end="")
    print(f"word_bonus {config.word_bonus:g}, beam {config.beam_width}: written into {output or model}")
    if picture is not None:
        draw(tuning, picture)
    for line in tuning.skipped:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if tuning.skipped else 0
