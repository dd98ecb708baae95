"""Language models for the command line: text in, an n-gram model out; what a model thinks of text; what is in one."""

import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ds2.decoder.arpa import read_arpa, write_arpa
from ds2.decoder.estimate import EstimateConfig, estimate
from ds2.decoder.ngram import Level, NGram
from ds2.decoder.rescore import SentenceModel
from ds2.utils.errors import InputError
from ds2.utils.files import text_lines

ARPA_NAMES = (".arpa", ".arpa.gz")


def read_sentences(path: Path, characters: bool = False) -> Iterator[list[str]]:
    """The words of each line of a text file, plain or gzipped; or its characters, without the spaces.

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
    """Estimates a model of all lines of the files; writes ARPA where the name says so, else the compiled form.

    KenLM's lmplz does it where it is installed: it gives the same model (a test), and sorts on disk.

    Raises:
        InputError: a file cannot be read, or has no sentence.
    """
    sentences = (line for path in corpus for line in read_sentences(path, characters))
    lmplz = shutil.which("lmplz") if config.vocabulary == 0 else None  # its own limit is a file of words
    words, levels = estimate_by_lmplz(lmplz, sentences, config) if lmplz else estimate(sentences, config)
    model = NGram.from_levels(words, levels)
    if output.name.endswith(ARPA_NAMES):
        write_arpa(output, words, levels)
    else:
        model.save(output)
    return model


def estimate_by_lmplz(
    lmplz: str, sentences: Iterable[Sequence[str]], config: EstimateConfig
) -> tuple[list[str], list[Level]]:
    """What `estimate` returns, from KenLM's program.

    Raises:
        InputError: it refuses the text; the message is its own.
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
    """(perplexity, words and sentence ends, words that the model does not know) of a text.

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
    """The model's order, words, n-grams and size."""
    states = len(model.arrays[4])
    return "\n".join(
        [
            f"{path}: {model.order}-gram model, {len(model.words):,} words, {len(model.arrays[1]):,} n-grams, "
            f"{path.stat().st_size / 1e6:.1f} MB",
            f"contexts: {states:,}",
            f"words: {' '.join(model.words[:20])}{' ...' if len(model.words) > 20 else ''}",
        ]
    )
