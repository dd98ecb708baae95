"""The beam search of a bundle for the page: its settings, lexicon and language model, as one safetensors file."""

import json
import math
from typing import Any

import numpy as np

from ds2.decoder import scoring
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.text import Tokenizer
from ds2.utils.errors import ParameterError

KINDS = {scoring.NO_LM: "none", scoring.WORDS: "words", scoring.TOKENS: "tokens"}
Decoder = BeamDecoder | PronouncingDecoder
LARGEST = 2**31 - 1  # of the numbers that the page can hold


def search_file(decoder: Decoder, tokenizer: Tokenizer) -> bytes:
    """What page/scoring.js reads: arrays by their names there; the settings as JSON in the metadata `search`.

    Raises:
        ParameterError: the decoder prefers phrases, which the page cannot.
    """
    from safetensors.numpy import save

    beam = decoder.beam if isinstance(decoder, PronouncingDecoder) else decoder
    if beam.tables.settings["phrases"]:
        raise ParameterError("hot", "the page prefers words, but no phrases; name the words one by one")
    tables, lm_start, sentence_end = beam.tables, beam.lm_start, beam.sentence_end
    lm = {f"lm_{name}": value for name, value in tables.lm._asdict().items()}
    arrays = {name: value for name, value in lm.items() if isinstance(value, np.ndarray)}
    facts = {name: value for name, value in lm.items() if name not in arrays}
    arrays |= {**tables.lexicon._asdict(), "ahead": tables.ahead, "boosts": tables.boosts, "numbers": tables.numbers}
    arrays |= {"labels": tables.labels}
    facts |= {name: _json_number(tables.settings[0][name]) for name in tables.settings.dtype.names or ()}
    facts |= {"kind": KINDS[facts.pop("lm_kind")], "sentence_end": sentence_end}
    facts |= {"lm_start": lm_start, "columns": list(range(len(tokenizer))), "letters": list(tokenizer.tokens)}
    if isinstance(decoder, PronouncingDecoder):
        facts |= {"columns": decoder.columns.tolist(), "spellings": decoder.words}
    return save({name: _narrow(array) for name, array in arrays.items()}, {"search": json.dumps(facts)})


def _json_number(value: Any) -> Any:
    """A number as JSON has it; None for infinity."""
    return None if math.isinf(value) else value.item()


def _narrow(array: np.ndarray) -> np.ndarray:
    """Numbers that JavaScript's arrays have without BigInt."""
    array = np.ascontiguousarray(array)
    if array.dtype != np.int64:
        return array
    assert array.max(initial=0) <= LARGEST
    return array.astype(np.int32)
