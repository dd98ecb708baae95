"""KenLM: its binary files, read with the kenlm module, and its program lmplz, which estimates models.

Binary files hold n-grams as hashes, which cannot be listed. Such a model scores sentences, but the beam search cannot
walk it.
"""

import math
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from ds2.lm.arpa import LN_10, read_arpa
from ds2.lm.estimate import EstimateConfig
from ds2.lm.orders import NGramOrder
from ds2.utils.errors import InputError
from ds2.utils.files import temporary_folder

MAGIC = b"mmap lm http://kheafield.com/code format version"


def is_kenlm_binary(path: str | Path) -> bool:
    """Whether a file begins like KenLM's binary files; False if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class KenLMModel:
    """A model that scores sentences like `NGram`."""

    def __init__(self, path: str | Path):
        """Reads a KenLM binary file.

        Raises:
            InputError: the kenlm module is missing or does not accept the file.
        """
        try:
            import kenlm
        except ImportError as error:
            raise InputError(f"{path}: KenLM's binary form needs its module: pip install kenlm") from error
        try:
            self._model = kenlm.Model(str(path))
        except (OSError, RuntimeError) as error:
            raise InputError(f"{path}: damaged language model ({error})") from error
        self.order: int = self._model.order

    def score(self, words: Sequence[str], begin: bool = True, end: bool = True) -> float:
        """Natural log-probability of a sentence, with <s> and </s> if requested."""
        return float(self._model.score(" ".join(words), bos=begin, eos=end)) * LN_10

    def scores(self, nbests: Sequence[Sequence[Sequence[str]]]) -> list[list[float]]:
        """Natural log-probabilities of the sentences of each n-best, each between <s> and </s>."""
        return [list(map(self.score, nbest)) for nbest in nbests]

    def knows(self, word: str) -> bool:
        """Whether the word is in the vocabulary."""
        return word in self._model


def estimate_by_lmplz(
    lmplz: str, sentences: Iterable[Sequence[str]], config: EstimateConfig
) -> tuple[list[str], list[NGramOrder]]:
    """Estimates the model with KenLM's program; returns the same as `estimate`.

    Raises:
        InputError: lmplz refuses the text, with its message, or the temporary disk is full.
    """
    with temporary_folder() as folder:
        text, arpa = folder / "text", folder / "lm.arpa"
        with text.open("w", encoding="utf-8") as file:
            file.writelines(" ".join(sentence) + "\n" for sentence in sentences)
        command = [lmplz, "--order", str(config.order), "--discount_fallback", "--text", str(text), "--arpa", str(arpa)]
        command += [
            "--temp_prefix",
            str(folder),
            "--memory",
            f"{math.ceil(config.memory)}M",
            *(["--prune", *map(str, config.prune)] if config.prune else []),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise InputError(f"lmplz: {result.stderr.strip().splitlines()[-1]}")
        return read_arpa(arpa)
