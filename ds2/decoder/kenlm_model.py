"""KenLM's binary files, read by the kenlm module.

They hold n-grams as hashes, which cannot be listed: such a model scores sentences and is not
walked by the beam search.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from ds2.utils.errors import InputError

MAGIC = b"mmap lm http://kheafield.com/code format version"
LN_10 = math.log(10.0)


def is_kenlm_binary(path: str | Path) -> bool:
    """Whether a file begins as KenLM's binary files do; False where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class KenLMModel:
    """A model that scores sentences as `NGram` does."""

    def __init__(self, path: str | Path):
        """Raises:
        InputError: the kenlm module is missing or does not take the file.
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
        """Natural log-probability of a sentence, between <s> and </s> if asked."""
        return float(self._model.score(" ".join(words), bos=begin, eos=end)) * LN_10

    def knows(self, word: str) -> bool:
        return word in self._model
