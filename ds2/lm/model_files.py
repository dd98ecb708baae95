"""Files of language models: builds, mixes, prunes, measures and describes them."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.lm.arpa import is_arpa, read_arpa, write_arpa
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.kenlm import estimate_by_lmplz
from ds2.lm.mixing import best_weights, mix, word_probabilities
from ds2.lm.ngram import NGram
from ds2.lm.orders import NGramOrder
from ds2.lm.pruning import prune
from ds2.lm.sentence_model import SentenceModel
from ds2.lm.texts import read_sentences, with_progress
from ds2.text import count_words
from ds2.utils.errors import InputError

ARPA_NAMES = (".arpa", ".arpa.gz")
WORDS_SHOWN = 20
BUNDLES = ".safetensors"
LEAST_WEIGHT = 1e-4  # weight of a model in a mixture; a model with less is left out


def build(
    corpus: list[Path], output: Path, config: EstimateConfig, characters: bool, language: str | None = None
) -> NGram:
    """Estimates a model from all lines of the files. Writes ARPA if the name says so, otherwise the compiled form.

    The text is brought to the normal form of a language, or taken as it is. Each step is logged.

    KenLM's lmplz estimates the model where it is installed: it gives the same model (a test), and sorts on disk.

    Raises:
        InputError: a file cannot be read, or has no sentence.
    """
    sentences = with_progress(line for path in corpus for line in read_sentences(path, characters, language))
    own = config.vocabulary or config.words or not config.continuation  # options that lmplz does not have
    lmplz = None if own else shutil.which("lmplz")
    words, orders = estimate_by_lmplz(lmplz, sentences, config) if lmplz else estimate(sentences, config)
    return write_lm(words, orders, output)


def write_lm(words: list[str], orders: list[NGramOrder], output: Path) -> NGram:
    """Writes a model as ARPA if the name says so, otherwise in the compiled form, and returns it."""
    model = NGram.from_orders(words, orders)
    if output.name.endswith(ARPA_NAMES):
        write_arpa(output, words, orders)
    else:
        model.save(output)
    return model


def read_orders(path: Path) -> tuple[list[str], list[NGramOrder]]:
    """The words and n-grams of an ARPA file, or of the compiled form.

    Raises:
        InputError: the file cannot be read, or its values are rounded.
    """
    if is_arpa(path):
        return read_arpa(path)
    model = NGram.load(path)
    if model.rounded:
        raise InputError(f"{path}: quantised; mix and prune models before that")
    return list(model.words), model.orders()


@dataclass(frozen=True)
class Weighing:
    """Weights that were found on a text.

    Attributes:
        weights: weight of each model.
        perplexities: perplexity of each model, over the words that it knows.
        mixed: perplexity of the mixture, over the words that any model knows.
        words, unknown: words and sentence ends of the text, and the number of them that no model knows.
    """

    weights: list[float]
    perplexities: list[float]
    mixed: float
    words: int
    unknown: int


def weigh(models: Sequence[NGram], text: Path, characters: bool, language: str | None = None) -> Weighing:
    """The weights with which the mixture of the models best predicts a text, normalised first with a language.

    Raises:
        InputError: the text cannot be read, has no sentence, or none of its words is known.
    """
    probabilities = word_probabilities(models, read_sentences(text, characters, language))
    weights = best_weights(probabilities)
    mixed = probabilities @ weights
    return Weighing(
        weights.tolist(),
        [_perplexity(column) for column in probabilities.T],
        _perplexity(mixed),
        len(mixed),
        int((mixed == 0).sum()),
    )


def _perplexity(probabilities: np.ndarray) -> float:
    """The perplexity over the known words."""
    known = probabilities[probabilities > 0]
    return math.exp(-np.log(known).mean()) if len(known) else math.inf


def prune_model(
    model: tuple[list[str], list[NGramOrder]], output: Path, threshold: float, most: int, histories: Path | None
) -> NGram:
    """Writes a model, of words and n-grams, without the n-grams that matter least, see `prune`.

    Raises:
        InputError: the model of contexts cannot be read.
    """
    words, orders = model
    contexts = NGram.load(histories) if histories is not None else None
    return write_lm(words, prune(words, orders, threshold, most, contexts), output)


def mix_models(models: Sequence[tuple[list[str], list[NGramOrder]]], weights: Sequence[float], output: Path) -> NGram:
    """Writes the mixture of models; the weights may have any sum, and a model with hardly any weight is left out."""
    shares = np.array(weights) / np.sum(weights)
    kept = np.flatnonzero(shares >= LEAST_WEIGHT).tolist()
    words, orders = mix([models[number] for number in kept], (shares[kept] / shares[kept].sum()).tolist())
    return write_lm(words, orders, output)


def perplexity(
    model: SentenceModel, path: Path, characters: bool, language: str | None = None
) -> tuple[float, int, int]:
    """(perplexity, number of words and sentence ends, number of words that the model does not know) for a text.

    With a language the text is normalised first.

    Raises:
        InputError: the file cannot be read, or has no sentence.
    """
    total, count, unknown = 0.0, 0, 0
    for sentence in read_sentences(path, characters, language):
        total += model.score(sentence)
        count += len(sentence) + 1
        unknown += sum(not model.knows(word) for word in sentence)
    return math.exp(-total / count), count, unknown


def describe_lm(model: NGram, path: Path) -> str:
    """Lines with the model's order, words, n-grams, the size of its own file, and the words that follow most others."""
    likeliest = np.argsort(-model.single_log_probs, kind="stable")[:WORDS_SHOWN]
    shown = " ".join(model.words[number] for number in likeliest)
    size = f", {path.stat().st_size / 1e6:.1f} MB" if path.is_file() and path.suffix != BUNDLES else ""
    return "\n".join(
        [
            f"{path}: {model.order}-gram model, {count_words(model.words):,} words, {model.ngrams:,} n-grams{size}",
            f"contexts: {model.states:,}",
            f"likeliest words after an unknown one: {shown}{' ...' if len(model.words) > WORDS_SHOWN else ''}",
        ]
    )
