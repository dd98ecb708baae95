"""Lines on texts from which language models are made, or by which they are measured."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ds2.utils.errors import printable


def warn_of_unusual(corpus: Sequence[Path]) -> None:
    """A line on words with capitals or punctuation, which recognised text does not have."""
    import re

    from ds2.lm.texts import SAMPLE, count_unusual
    from ds2.text import IDEOGRAPH

    unusual, total = count_unusual(corpus)
    if unusual:
        examples = ", ".join(word for word, _ in unusual.most_common(3))
        mandarin = "--language zh normalises Mandarin, and --characters takes it by characters"
        remedy = mandarin if re.search(IDEOGRAPH, examples) else "--language en normalises English text"
        print(
            f"ds2: {unusual.total() / total:.0%} of the words of the first {SAMPLE:,} sentences have capitals or "
            f"punctuation: {printable(examples)}; recognition does not find such words; {remedy}",
            file=sys.stderr,
        )


def warn_of_unknown(texts: Sequence[Path], characters: bool, language: str | None) -> None:
    """A line on why a model may lack words of these texts."""
    import re
    from itertools import islice

    from ds2.lm.texts import read_sentences
    from ds2.text import IDEOGRAPH

    if language is None:
        warn_of_unusual(texts)
    first = " ".join(word for path in texts for sentence in islice(read_sentences(path), 10) for word in sentence)
    if not characters and re.search(IDEOGRAPH, first):
        print("ds2: the text is of ideographs; for a model over characters give --characters", file=sys.stderr)
