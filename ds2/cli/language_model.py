"""ds2 lm vocabulary, build, mix, prune, compile, score, info; ds2 tune-decoder."""

import math
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
    words: Path | None = None,
    memory: float = 1000.0,
    continuation: bool = True,
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
        words: A list of words, as of ds2 lm vocabulary: just these are kept, each with a probability, seen or not.
        memory: MB for sorting, with temporary files for what is larger; the words and the model itself come on top.
        continuation: Without it shorter n-grams have the corpus's counts: as ds2 lm prune --histories wants them.
        characters: A model over characters, as for Mandarin.
    """
    from ds2.decoder.estimate import EstimateConfig
    from ds2.files import check_writable
    from ds2.lm import build as build_model
    from ds2.lm import describe, read_words

    listed = read_words(words) if words is not None else ()
    try:
        config = EstimateConfig(order, prune, vocabulary, listed, continuation, memory)
    except ValueError as error:
        raise InputError(f"lm build: {error}") from error
    if not corpus:
        raise InputError("lm build: name at least one text file")
    check_writable(output)
    print(describe(build_model(list(corpus), output, config, characters), output))
    return 0


def vocabulary(
    texts: Positional[tuple[Path, ...]],
    dev: Path,
    size: int,
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
) -> int:
    """Choose the words of a language model: the most frequent ones of several texts, weighted by what foretells dev.

    Example: ds2 lm vocabulary books.txt talk.txt --dev dev.txt --size 100000 -o words.txt

    Args:
        texts: What the model will be estimated from, a sentence a line.
        dev: Sentences as they will be spoken, by which the texts are weighted.
        size: How many words.
        output: The list of words, one a line, the most frequent first: for ds2 lm build --words.
    """
    from ds2.files import check_writable, write_lines
    from ds2.lm import choose_words

    if not texts or size < 1:
        raise InputError("lm vocabulary: name at least one text, and a --size of at least 1")
    check_writable(output)
    words, weights = choose_words(texts, dev, size)
    write_lines(output, words)
    print("\n".join(f"{path}: weight {weight:.4f}" for path, weight in zip(texts, weights, strict=True)))
    print(f"{output}: {len(words):,} words")
    return 0


def mix(
    models: Positional[tuple[Path, ...]],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    dev: Path | None = None,
    weights: tuple[float, ...] = (),
    characters: bool = False,
) -> int:
    """Mix n-gram models into one, by weights that are given or found on a text.

    Example: ds2 lm mix books.arpa.gz talk.arpa.gz --dev dev.txt -o mixed.arpa.gz

    Args:
        models: ARPA, plain or .gz, or the compiled form, not quantised.
        output: NAME.arpa or NAME.arpa.gz; any other name gets the compiled form.
        dev: A text that no model was estimated from, a sentence a line: the mixture makes it as probable as can be.
        weights: One for each model, in place of --dev.
        characters: The models are over characters.
    """
    from ds2.decoder.ngram import NGram
    from ds2.files import check_writable
    from ds2.lm import describe, mix_models, read_levels, weigh

    if (dev is None) == (not weights):
        raise InputError("lm mix: give either --dev or --weights")
    if weights and (len(weights) != len(models) or min(weights) < 0 or not 0 < sum(weights) < math.inf):
        raise InputError(f"--weights: expected one for each of {len(models)} models, none negative, not all 0")
    if not models:
        raise InputError("lm mix: name at least one model")
    check_writable(output)
    parts = [read_levels(path) for path in models]
    if dev is not None:
        found = weigh([NGram.from_levels(*part) for part in parts], dev, characters)
        weights = tuple(found.weights)
        print(f"{dev}: perplexity {found.mixed:.2f} over {found.words:,} words and sentence ends", end="")
        print(f" but the {found.unknown:,} unknown")
        for path, weight, value in zip(models, weights, found.perplexities, strict=True):
            print(f"{path}: weight {weight:.4f}, perplexity {value:.2f} over the words that it knows")
    print(describe(mix_models(parts, weights, output), output))
    return 0


def prune(
    model: Positional[Path],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    threshold: float = 0.0,
    ngrams: int = 0,
    histories: Path | None = None,
) -> int:
    """Make an n-gram model smaller: what changes it least, by relative entropy, goes.

    Example: ds2 lm prune large.arpa.gz -o small.arpa.gz --threshold 1e-8

    Args:
        model: ARPA, plain or .gz, or the compiled form, not quantised.
        output: NAME.arpa or NAME.arpa.gz; any other name gets the compiled form.
        threshold: An n-gram goes whose loss raises the perplexity by less, relatively: 1e-8 is a little, 1e-7 a lot.
        ngrams: How many n-grams may stay, single words included, which all stay; 0 sets no limit.
        histories: Says how probable contexts are: a model of the same text by ds2 lm build --no-continuation.
    """
    from ds2.files import check_writable
    from ds2.lm import describe, prune_model

    if threshold < 0 or ngrams < 0 or threshold == ngrams == 0:
        raise InputError("lm prune: give a --threshold above 0, or a number of --ngrams")
    check_writable(output)
    print(describe(prune_model(model, output, threshold, ngrams, histories), output))
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
        device: auto, cpu or cuda.
    """
    from ds2.bundle import Bundle
    from ds2.data.manifest import read_manifest
    from ds2.decoder_options import DecoderOptions
    from ds2.decoder_tuning import MOST_DECODINGS, choose_model, draw, tune
    from ds2.decoding import load_search_model, with_decoder
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
    if line := beyond_alphabet(recognizer.tokenizer, utterances):
        print(f"ds2: {line}", file=sys.stderr)
    with Progress("tuning", MOST_DECODINGS, "decodings") as progress:
        tuning = tune(recognizer, chosen, utterances, closed, progress.step)
    with_decoder(bundle, tuning.config, chosen).save(output or model)
    config, rate = tuning.config, tuning.widths[tuning.config.beam_width]
    print(f"{tuning.unit} {rate:.2%} (greedy {tuning.greedy:.2%}) at lm_weight {config.lm_weight:g}, ", end="")
    print(f"word_bonus {config.word_bonus:g}, beam {config.beam_width}: written into {output or model}")
    if picture is not None:
        draw(tuning, picture)
    for line in tuning.skipped:
        print(f"ds2: {line}", file=sys.stderr)
    return SOME_FAILED if tuning.skipped else 0
