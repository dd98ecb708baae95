"""KenLM's binary files, read with the kenlm module.

These files hold n-grams as hashes, which cannot be listed. Such a model scores sentences, but the beam search cannot
walk it.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from ds2.utils.errors import InputError

MAGIC = b"mmap lm http://kheafield.com/code format version"
LN_10 = math.log(10.0)


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

    def knows(self, word: str) -> bool:
        return word in self._model
