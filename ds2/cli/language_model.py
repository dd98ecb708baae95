"""ds2 lm vocabulary, build, mix, prune, compile, score, info."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from ds2.cli.languages import check_text_language
from ds2.cli.lm_texts import warn_of_unknown, warn_of_unusual
from ds2.cli.options import DEFAULT_COUNTING, NO_DEFAULT, Counting, CountingOptions, Maybe, Output, Paths
from ds2.utils.errors import InputError, ParameterError

if TYPE_CHECKING:
    from ds2.lm.orders import NGramOrder

SUM_ERROR = 0.01  # of weights that were rounded
LEAST_WEIGHT = 1e-3  # of a model that matters
GAIN = 0.99  # of a perplexity: a mixture that is worth its size has less


def build_command(
    corpus: Paths,
    output: Output,
    order: int = 3,
    prune: Annotated[tuple[int, ...], NO_DEFAULT] = (),
    counting: Counting = DEFAULT_COUNTING,
    memory: float = 1000.0,
    characters: bool = False,
    language: Maybe[str] = None,
) -> int:
    """Estimate an n-gram model from text, one sentence per line.

    The estimate is interpolated modified Kneser-Ney.

    Example: ds2 lm build corpus.txt -o lm.arpa.gz --order 5 --prune 0 0 1 --language en

    Args:
        corpus: Text files, plain or .gz; - reads standard input.
        output: NAME.arpa or NAME.arpa.gz; any other name gets the compiled form, which loads at once.
        order: Length of the longest n-gram.
        prune: For each order, leave out n-grams seen no more often than this; the last number also applies to the rest.
        counting: Words and counts.
        memory: MB for sorting, with temporary files beyond that; the words and the model itself are not included.
        characters: Build a model over characters, for example for Mandarin.
        language: Normalise the text of this language, as ds2 data convert does: en or zh, whose numbers become words,
            or another such as de; by default it stays unchanged.
    """
    from ds2.lm.estimate import EstimateConfig
    from ds2.lm.model_files import build, describe_lm
    from ds2.utils.files import check_writable, repeatable
    from ds2.utils.logs import shown_log

    check_text_language(language)
    listed = _listed_words(counting)
    try:
        config = EstimateConfig(order, prune, counting.vocabulary, listed, counting.continuation, memory)
    except ValueError as error:
        raise InputError(f"lm build: {error}") from error
    if not corpus:
        raise InputError("lm build: name at least one text file")
    check_writable(output)
    if language == "zh" and not characters:
        print("ds2: Chinese has no spaces, so that each sentence is one word: give --characters", file=sys.stderr)
    with repeatable(corpus) as texts, shown_log():
        warn_of_unusual(texts if language is None else tuple(filter(None, [counting.words])))
        model = build(texts, output, config, characters, language)
    print(describe_lm(model, output))
    return 0


def _listed_words(counting: CountingOptions) -> tuple[str, ...]:
    """The words of --words."""
    from ds2.lm.texts import read_words

    if counting.words is None:
        return ()
    if counting.vocabulary:
        raise ParameterError("vocabulary", "--words says which words are kept; give one of the two")
    return read_words(counting.words)


def vocabulary_command(
    texts: Paths,
    dev: Path,
    size: int,
    output: Output,
    language: Maybe[str] = None,
) -> int:
    """Choose the words of a language model from several texts.

    It takes the most frequent words, and weights each text by how well it predicts dev.

    Example: ds2 lm vocabulary books.txt talk.txt --dev dev.txt --size 100000 -o words.txt

    Args:
        texts: The texts from which the model will be estimated, one sentence per line.
        dev: Sentences like those that will be spoken; they determine the weights of the texts.
        size: Number of words.
        output: List of words for ds2 lm build --words, one per line, the most frequent first.
        language: Normalise the texts of this language, as ds2 lm build does; by default they stay unchanged.
    """
    from ds2.lm.texts import choose_words
    from ds2.utils.files import check_writable, repeatable, write_lines

    check_text_language(language)
    if not texts or size < 1:
        raise InputError("lm vocabulary: name at least one text, and a --size of at least 1")
    check_writable(output)
    with repeatable([*texts, dev]) as readable:
        if language is None:
            warn_of_unusual(readable)
        words, weights = choose_words(readable[:-1], readable[-1], size, language)
    write_lines(output, words)
    print("\n".join(f"{path}: weight {weight:.4f}" for path, weight in zip(texts, weights, strict=True)))
    print(f"{output}: {len(words):,} words")
    return 0


def lm_mix_command(
    models: Paths,
    output: Output,
    dev: Maybe[Path] = None,
    weights: Annotated[tuple[float, ...], NO_DEFAULT] = (),
    characters: bool = False,
    language: Maybe[str] = None,
) -> int:
    """Mix n-gram models by given weights or by weights from a text.

    Example: ds2 lm mix english own.arpa.gz --dev dev.txt -o mixed.lm

    Args:
        models: ARPA, plain or .gz, the compiled form, not quantised, or the model in a bundle, by its path or name.
        output: NAME.arpa or NAME.arpa.gz; any other name gets the compiled form.
        dev: A text, one sentence per line, that no model was estimated from; the weights make it most probable.
        weights: One weight for each model, 1 in all, instead of --dev.
        characters: The models are over characters.
        language: Normalise the dev text of this language, as ds2 lm build does; by default it stays unchanged.
    """
    from ds2.lm.model_files import describe_lm, mix_models, weigh
    from ds2.lm.ngram import NGram
    from ds2.utils.files import check_writable, repeatable

    check_text_language(language)
    if (dev is None) == (not weights):
        raise InputError("lm mix: give either --dev or --weights")
    if weights and (len(weights) != len(models) or min(weights) < 0 or not abs(sum(weights) - 1) < SUM_ERROR):
        raise InputError(f"--weights: expected one for each of {len(models)} models, none negative, 1 in all")
    if not models:
        raise InputError("lm mix: name at least one model")
    check_writable(output)
    parts = list(map(_orders_of, models))
    if dev is not None:
        with repeatable([dev]) as texts:
            found = weigh([NGram.from_orders(*part) for part in parts], texts[0], characters, language)
            if found.unknown:
                warn_of_unknown(texts, characters, language)
        weights = tuple(found.weights)
        print(f"{dev}: perplexity {found.mixed:.2f} over {found.words:,} words and sentence ends", end="")
        print(f" but the {found.unknown:,} unknown")
        for path, weight, value in zip(models, weights, found.perplexities, strict=True):
            lost = "" if weight > LEAST_WEIGHT else "; what it alone knows is lost: give --weights to keep it"
            print(f"{path}: weight {weight:.4f}, perplexity {value:.2f} over the words that it knows{lost}")
        if found.mixed > GAIN * min(found.perplexities):
            print("ds2: the mixture predicts this text hardly better than the best of them", file=sys.stderr)
    print(describe_lm(mix_models(parts, weights, output), output))
    return 0


def _orders_of(model: Path) -> "tuple[list[str], list[NGramOrder]]":
    """The words and n-grams of a model of its own or in a bundle."""
    from ds2.lm.model_files import read_orders
    from ds2.recognition.bundled_search import model_of_bundle

    own = model_of_bundle(model)
    return (list(own.words), own.orders()) if own is not None else read_orders(model)


def prune_command(
    model: Positional[Path],
    output: Output,
    threshold: float = 0.0,
    ngrams: int = 0,
    histories: Maybe[Path] = None,
) -> int:
    """Make an n-gram model smaller by relative entropy pruning.

    The n-grams whose removal changes the model least are removed.

    Example: ds2 lm prune large.arpa.gz -o small.arpa.gz --threshold 1e-8

    Args:
        model: ARPA, plain or .gz, the compiled form, not quantised, or the model in a bundle, by its path or name.
        output: NAME.arpa or NAME.arpa.gz; any other name gets the compiled form.
        threshold: Remove n-grams that change the perplexity by less than this fraction: 1e-8 removes few, 1e-7 many.
        ngrams: Number of n-grams that may stay, including all single words; 0 sets no limit.
        histories: Model of the same text, by ds2 lm build --no-continuation, that gives the probabilities of contexts.
    """
    from ds2.lm.model_files import describe_lm, prune_model
    from ds2.utils.files import check_writable

    if not threshold >= 0 or ngrams < 0 or threshold == ngrams == 0:  # which NaN fails, too
        raise InputError("lm prune: give a --threshold above 0, or a number of --ngrams")
    check_writable(output)
    print(describe_lm(prune_model(_orders_of(model), output, threshold, ngrams, histories), output))
    return 0


def lm_compile_command(model: Positional[Path], output: Output, quantize: bool = False) -> int:
    """Convert a model to the compiled form, which loads at once.

    Example: ds2 lm compile lm.arpa.gz -o lm.compiled --quantize

    Args:
        model: ARPA, plain or .gz, the compiled form, or the model in a bundle, by its path or name.
        output: The file to write.
        quantize: Use a third of the space: log-probabilities are rounded to 256 values, and none is below -32 nats.
    """
    from ds2.lm.model_files import ARPA_NAMES, describe_lm
    from ds2.recognition.bundled_search import load_search_model
    from ds2.utils.files import check_writable

    if output.name.endswith(ARPA_NAMES):
        raise ParameterError("output", f"{output}: the compiled form is not ARPA, which ds2 lm mix --weights 1 writes")
    check_writable(output)
    compiled = load_search_model(model)
    compiled = compiled.quantized() if quantize else compiled
    compiled.save(output)
    print(describe_lm(compiled, output))
    return 0


def score_command(
    model: Positional[Path], text: Positional[Path], characters: bool = False, language: Maybe[str] = None
) -> int:
    """Measure the perplexity of a language model on a text.

    The lower it is, the better the model predicts the text. Words that it does not know count as <unk> does; ds2 lm mix
    leaves them out.

    Example: ds2 lm score lm.arpa.gz held-out.txt

    Args:
        model: ARPA, plain or .gz, the compiled form, KenLM's binary form, or the model in a bundle, by path or name.
        text: Text, one sentence per line.
        characters: The model is over characters.
        language: Normalise the text of this language, as ds2 lm build does; by default it stays unchanged.
    """
    from ds2.lm.model_files import perplexity
    from ds2.lm.sentence_model import load_sentence_model
    from ds2.recognition.bundled_search import model_of_bundle
    from ds2.utils.files import repeatable

    check_text_language(language)
    with repeatable([text]) as texts:
        lm = model_of_bundle(model) or load_sentence_model(model)
        value, count, unknown = perplexity(lm, texts[0], characters, language)
        if unknown:
            warn_of_unknown(texts, characters, language)
    print(f"perplexity {value:.2f} over {count:,} words and sentence ends, of which {unknown:,} unknown count as <unk>")
    return 0


def lm_info_command(model: Positional[Path]) -> int:
    """Show what is in a language model.

    Example: ds2 lm info lm.arpa.gz

    Args:
        model: ARPA, plain or .gz, the compiled form, or the model in a bundle, by its path or name.
    """
    from ds2.lm.model_files import describe_lm
    from ds2.recognition.bundled_search import load_search_model

    print(describe_lm(load_search_model(model), model))
    return 0
