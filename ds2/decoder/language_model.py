"""Language models for the command line: builds, mixes, prunes, measures and describes n-gram models."""

import math
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds2.decoder.arpa import is_arpa, read_arpa, write_arpa
from ds2.decoder.estimate import EstimateConfig, estimate
from ds2.decoder.levels import BEGIN, END, UNKNOWN, Level
from ds2.decoder.ngram import NGram
from ds2.decoder.ngram_mixing import best_weights, mix, word_probabilities
from ds2.decoder.ngram_pruning import prune
from ds2.decoder.rescore import SentenceModel
from ds2.utils.errors import InputError
from ds2.utils.files import text_lines

ARPA_NAMES = (".arpa", ".arpa.gz")
LEAST_WEIGHT = 1e-4  # weight of a model in a mixture; a model with less is left out


def read_sentences(path: Path, characters: bool = False) -> Iterator[list[str]]:
    """The words of each line of a text file, plain or gzipped, or its characters without the spaces.

    Raises:
        InputError: the file cannot be read, or has no sentence.
    """
    empty = True
    for line in text_lines(path):
        if words := line.split():
            empty = False
            yield list("".join(words)) if characters else words
    if empty:
        raise InputError(f"{path}: no sentence in it")


def build(corpus: list[Path], output: Path, config: EstimateConfig, characters: bool) -> NGram:
    """Estimates a model from all lines of the files. Writes ARPA if the name says so, otherwise the compiled form.

    KenLM's lmplz estimates the model where it is installed: it gives the same model (a test), and sorts on disk.

    Raises:
        InputError: a file cannot be read, or has no sentence.
    """
    sentences = (line for path in corpus for line in read_sentences(path, characters))
    own = config.vocabulary or config.words or not config.continuation  # options that lmplz does not have
    lmplz = None if own else shutil.which("lmplz")
    words, levels = estimate_by_lmplz(lmplz, sentences, config) if lmplz else estimate(sentences, config)
    return write(words, levels, output)


def write(words: list[str], levels: list[Level], output: Path) -> NGram:
    """Writes a model as ARPA if the name says so, otherwise in the compiled form, and returns it."""
    model = NGram.from_levels(words, levels)
    if output.name.endswith(ARPA_NAMES):
        write_arpa(output, words, levels)
    else:
        model.save(output)
    return model


def choose_words(texts: Sequence[Path], dev: Path, size: int) -> tuple[list[str], list[float]]:
    """The most probable words in the mixture of texts that best predicts `dev`, word by word; the texts' weights.

    Raises:
        InputError: a text cannot be read, has no sentence, or has none of the words of dev.
    """
    counts = [Counter(word for sentence in read_sentences(path) for word in sentence) for path in texts]
    shares = [(count, 1 / count.total()) for count in counts]
    asked = [word for sentence in read_sentences(dev) for word in sentence]
    weights = best_weights(np.array([[count[word] * share for count, share in shares] for word in asked]))
    mixed: Counter[str] = Counter()
    for (count, share), weight in zip(shares, weights.tolist(), strict=True):
        mixed.update({word: weight * share * number for word, number in count.items()})
    return sorted(mixed, key=lambda word: (-mixed[word], word))[:size], weights.tolist()


def read_words(path: Path) -> tuple[str, ...]:
    """Reads a list of words, one per line, without repetitions.

    Raises:
        InputError: the file cannot be read, or holds no word.
    """
    words = tuple(dict.fromkeys(word for line in read_sentences(path) for word in line))
    return tuple(word for word in words if word not in (BEGIN, END, UNKNOWN))


def read_levels(path: Path) -> tuple[list[str], list[Level]]:
    """The words and n-grams of an ARPA file, or of the compiled form.

    Raises:
        InputError: the file cannot be read, or its values are rounded.
    """
    if is_arpa(path):
        return read_arpa(path)
    model = NGram.load(path)
    if model.unit != 1.0:
        raise InputError(f"{path}: quantised; mix and prune models before that")
    return list(model.words), model.levels()


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


def weigh(models: Sequence[NGram], text: Path, characters: bool) -> Weighing:
    """The weights with which the mixture of the models best predicts a text.

    Raises:
        InputError: the text cannot be read, has no sentence, or none of its words is known.
    """
    probabilities = word_probabilities(models, read_sentences(text, characters))
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


def prune_model(path: Path, output: Path, threshold: float, most: int, histories: Path | None) -> NGram:
    """Writes a model without the n-grams that matter least, see `prune`.

    Raises:
        InputError: the model cannot be read, or its values are rounded.
    """
    words, levels = read_levels(path)
    contexts = NGram.load(histories) if histories is not None else None
    return write(words, prune(words, levels, threshold, most, contexts), output)


def mix_models(models: Sequence[tuple[list[str], list[Level]]], weights: Sequence[float], output: Path) -> NGram:
    """Writes the mixture of models; the weights may have any sum, and a model with hardly any weight is left out."""
    shares = np.array(weights) / np.sum(weights)
    kept = np.flatnonzero(shares >= LEAST_WEIGHT).tolist()
    words, levels = mix([models[number] for number in kept], (shares[kept] / shares[kept].sum()).tolist())
    return write(words, levels, output)


def estimate_by_lmplz(
    lmplz: str, sentences: Iterable[Sequence[str]], config: EstimateConfig
) -> tuple[list[str], list[Level]]:
    """Estimates the model with KenLM's program; returns the same as `estimate`.

    Raises:
        InputError: lmplz refuses the text; the message is that of lmplz.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, arpa = Path(folder) / "text", Path(folder) / "lm.arpa"
        with text.open("w", encoding="utf-8") as file:
            file.writelines(" ".join(sentence) + "\n" for sentence in sentences)
        command = [lmplz, "--order", str(config.order), "--discount_fallback", "--text", str(text), "--arpa", str(arpa)]
        command += [
            "--temp_prefix",
            folder,
            "--memory",
            f"{math.ceil(config.memory)}M",
            *(["--prune", *map(str, config.prune)] if config.prune else []),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise InputError(f"lmplz: {result.stderr.strip().splitlines()[-1]}")
        return read_arpa(arpa)


def perplexity(model: SentenceModel, path: Path, characters: bool) -> tuple[float, int, int]:
    """(perplexity, number of words and sentence ends, number of words that the model does not know) for a text.

    Raises:
        InputError: the file cannot be read, or has no sentence.
    """
    total, count, unknown = 0.0, 0, 0
    for sentence in read_sentences(path, characters):
        total += model.score(sentence)
        count += len(sentence) + 1
        unknown += sum(not model.knows(word) for word in sentence)
    return math.exp(-total / count), count, unknown


def describe(model: NGram, path: Path) -> str:
    """One line with the model's order, words, n-grams and size."""
    states = len(model.arrays[4])
    return "\n".join(
        [
            f"{path}: {model.order}-gram model, {len(model.words):,} words, {len(model.arrays[1]):,} n-grams, "
            f"{path.stat().st_size / 1e6:.1f} MB",
            f"contexts: {states:,}",
            f"words: {' '.join(model.words[:20])}{' ...' if len(model.words) > 20 else ''}",
        ]
    )
