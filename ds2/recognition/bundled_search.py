"""What a bundle holds for its search: a language model, pronunciations, weights."""

import dataclasses
from pathlib import Path

import numpy as np

from ds2.bundle import Bundle, read_record
from ds2.decoder.config import BeamConfig
from ds2.decoder.phone_search import FIRST
from ds2.decoder.pronunciations import NAMES, Pronunciations
from ds2.lm.kenlm import is_kenlm_binary
from ds2.lm.ngram import NGram
from ds2.model_record import LanguageModelPart, Record
from ds2.text import is_ideograph
from ds2.utils.config import to_dict
from ds2.utils.errors import InputError, ParameterError


def bundled_model(bundle: Record) -> NGram | None:
    """The language model in a bundle, if it holds one.

    Raises:
        InputError: its arrays are not a language model.
    """
    if (part := bundle.language_model) is None:
        return None
    try:
        found = {name: np.asarray(array) for name, array in part.arrays.items() if name not in NAMES}
        return NGram.from_arrays(part.words, found, part.order)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the bundle's language model is damaged: {error}; bundle it again") from error


def model_of_bundle(path: Path) -> NGram | None:
    """The language model in the bundle of this path or name; None for a file of another kind.

    Raises:
        InputError: the bundle is damaged, or has no language model.
    """
    try:
        read_record(path)
    except InputError:
        return None
    if (lm := bundled_model(Bundle.load(path, "numpy"))) is None:
        raise InputError(f"{path}: this model has no language model")
    return lm


def load_search_model(path: Path) -> NGram:
    """Reads a language model for the search, from a file of its own or from a bundle.

    Raises:
        InputError: the file cannot be read, or is a bundle without a language model.
        ParameterError: the file is in KenLM's binary format.
    """
    if is_kenlm_binary(path):
        raise ParameterError("lm", f"{path}: KenLM's binary form can rescore but not search; give the ARPA file")
    return model_of_bundle(path) or NGram.load(path)


def knows_most(lm: NGram | None, bundle: Record) -> bool:
    """Whether a language model knows most words of the bundle's: then what was fitted beside that one stays."""
    if lm is None or (own := bundle.language_model) is None:
        return False
    return 2 * sum(word in lm.index for word in own.words) > len(own.words)


def bundled_pronunciations(bundle: Record) -> Pronunciations | None:
    """The pronunciations of the words of the bundle's language model, if it has any.

    Raises:
        InputError: they do not fit the bundle's language model, tokens or phones.
    """
    if (part := bundle.language_model) is None or NAMES[0] not in part.arrays:
        return None
    damaged = InputError("the bundle's pronunciations do not fit its words, tokens or phones; copy or make it again")
    try:
        found = Pronunciations(part.words, *(np.asarray(part.arrays[name]) for name in NAMES))
    except (KeyError, TypeError) as error:  # an array that is missing, or of a type that numpy lacks
        raise damaged from error
    words, tokens = found.known(), set(bundle.tokens)
    spelt = set("".join(words)) <= tokens and (" " in tokens or all(map(is_ideograph, words)))
    pronounced = (found.phones == 0) | ((found.phones >= FIRST) & (found.phones < bundle.phones))
    if not (spelt and found.lengths.all() and pronounced.all()):
        raise damaged
    return found if len(found.pronounced) else None


def with_decoder(
    bundle: Bundle, config: BeamConfig, lm: NGram | None = None, pronunciations: Pronunciations | None = None
) -> Bundle:
    """The bundle with another configuration of its search and, where one is given, another language model."""
    bundle = dataclasses.replace(bundle, decoder=to_dict(config))
    return bundle if lm is None else with_language_model(bundle, lm, pronunciations)


def with_language_model(bundle: Bundle, lm: NGram, pronunciations: Pronunciations | None) -> Bundle:
    """The bundle with another language model, and the pronunciations of its words."""
    import torch

    arrays = lm.arrays
    if pronunciations is not None:
        own = pronunciations.among(lm.words)
        arrays |= dict(zip(NAMES, (own.pronounced, own.phones), strict=True))
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    return dataclasses.replace(bundle, language_model=LanguageModelPart(lm.order, lm.words, tensors))
