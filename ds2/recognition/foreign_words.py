"""Warnings of a language model that shares few words with the model that it is named for."""

import logging
from collections.abc import Callable, Mapping

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.lm.ngram import NGram
from ds2.lm.sentence_model import SentenceModel
from ds2.model_record import Record
from ds2.recognition.decoding import SMALL_MODEL, spellable
from ds2.text import MODEL_MARKS, Tokenizer, count_words, is_ideograph
from ds2.utils.errors import some_of

logger = logging.getLogger(__name__)


def warn_of_foreign_search(lm: NGram, tokenizer: Tokenizer, bundle: Record) -> None:
    """Logs that a model can spell, or knows, less than half of what a language model for its search expects."""
    bundled = bundle.language_model
    own = set(bundle.vocabulary or (bundled.words if bundled is not None else ())) - set(MODEL_MARKS)
    by_words = any(len(word) > 1 for word in own)
    known = own if by_words else set(spellable(lm.words, tokenizer))
    if part := _known_part(_expected(lm), known.__contains__, "its"):
        logger.warning("lm: the model %s %s", "knows" if by_words else "can spell", part)


def warn_of_foreign_rescorer(lm: SentenceModel, beam: BeamDecoder | PronouncingDecoder, bundle: Record) -> None:
    """Logs that a second pass does not know half of what the search expects; of a search without words nothing."""
    found = dict.fromkeys(bundle.vocabulary or (), 1.0) if beam.lm is None else _expected(beam.lm)
    letters = all(len(word) == 1 and not is_ideograph(word) for word in found)
    if not letters and (part := _known_part(found, lm.knows, "the search's")):
        logger.warning("rescore: it knows %s", part)
    elif isinstance(lm, NGram) and not letters and len(lm.words) < min(max(SMALL_MODEL, len(found) / 2), len(found)):
        logger.warning("rescore: it knows %s words, and makes all others less likely", f"{count_words(lm.words):,}")


def _expected(lm: NGram) -> dict[str, float]:
    """The probability of each word without context."""
    singles = dict(zip(lm.words, np.exp(lm.single_log_probs).tolist(), strict=True))
    return {word: probability for word, probability in singles.items() if word not in MODEL_MARKS}


def _known_part(words: Mapping[str, float], knows: Callable[[str], bool], whose: str) -> str:
    """How many words are known, and the likeliest that are not; empty if a text is likely to be half known."""
    lacking = sorted((word for word in words if not knows(word)), key=words.__getitem__, reverse=True)
    if 2 * sum(map(words.__getitem__, lacking)) <= sum(words.values()):
        return ""
    return f"{len(words) - len(lacking):,} of {whose} {len(words):,} words, but not {some_of(lacking)}"
