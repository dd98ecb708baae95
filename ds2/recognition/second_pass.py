"""The second pass of a bundle: a language model that weighs the best hypotheses of the search anew."""

import logging

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.decoder.rescore import Rescorer
from ds2.lm.neural import NeuralModel
from ds2.lm.sentence_model import load_sentence_model
from ds2.model_record import Record
from ds2.recognition.foreign_words import warn_of_foreign_rescorer
from ds2.recognition.options import DecoderOptions
from ds2.utils.errors import InputError

logger = logging.getLogger(__name__)


def make_rescorer(
    bundle: Record, options: DecoderOptions, beam: BeamDecoder | PronouncingDecoder | None, fits: bool
) -> Rescorer | None:
    """The second pass by the caller's model in place of the search's, or by the bundle's beside it.

    The bundle's belongs to its own language model and is left out, which a warning says, if the search has another one
    that it does not fit.

    Args:
        fits: whether the search has the bundle's language model or one of most of its words, such as a mixture with it.

    Raises:
        InputError: a language model cannot be read, or is damaged.
    """
    if beam is None:
        return None
    if options.rescore is not None:
        lm = load_sentence_model(options.rescore)
        warn_of_foreign_rescorer(lm, beam, bundle)
        if bundle.neural_model is not None:
            logger.warning("rescore: it takes the place of the model's own neural language model")
        return Rescorer(lm, beam.config.lm_weight, beam.config.word_bonus)
    if (part := bundle.neural_model) is None:
        return None
    if not fits:
        logger.warning(
            "lm: it also takes the place of the model's own neural language model; a mixture of both, by ds2 lm mix, "
            "keeps that one"
        )
        return None
    try:
        arrays = {name: np.asarray(array) for name, array in part.arrays.items()}
    except TypeError as error:  # a type that numpy lacks
        raise InputError("the bundle's neural language model is damaged; add it again") from error
    return Rescorer(NeuralModel(part.pieces, arrays), part.weight, part.bonus, part.kept)
