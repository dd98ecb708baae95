"""ds2 lm build, score, info."""

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from ds2.errors import InputError


def build(
    corpus: Positional[tuple[Path, ...]],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    order: int = 3,
    prune: tuple[int, ...] = (),
    vocabulary: int = 0,
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
        characters: A model over characters, as for Mandarin.
    """
    from ds2.decoder.estimate import EstimateConfig
    from ds2.lm import build as build_model
    from ds2.lm import describe

    try:
        config = EstimateConfig(order, prune, vocabulary)
    except ValueError as error:
        raise InputError(f"lm build: {error}") from error
    if not corpus:
        raise InputError("lm build: name at least one text file")
    print(describe(build_model(list(corpus), output, config, characters), output))
    return 0


def score(model: Positional[Path], text: Positional[Path], characters: bool = False) -> int:
    """Measure the perplexity of a text.

    Example: ds2 lm score lm.arpa.gz held-out.txt

    Args:
        model: ARPA, plain or .gz, or the compiled form.
        text: A sentence a line.
        characters: The model is over characters.
    """
    from ds2.decoder.ngram import NGram
    from ds2.lm import perplexity

    value, count, unknown = perplexity(NGram.load(model), text, characters)
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
