"""The utterances of a manifest that can be read, as the searches for weights hear them."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError

HeardUtterance = tuple[Utterance, np.ndarray, float]  # with its (T, V) log-probabilities and its seconds


def heard_utterances(
    recognizer: Recognizer, utterances: Sequence[Utterance], skipped: list[str], on_done: Callable[[], None]
) -> Iterator[HeardUtterance]:
    """What `readable_utterances` gives.

    Raises:
        InputError: none can be read.
    """
    yield from readable_utterances(recognizer, utterances, skipped, on_done)
    if len(skipped) == len(utterances) and skipped:
        raise InputError(f"{skipped[0]} (and so on: none of {len(skipped)} utterances can be read)")


def readable_utterances(
    recognizer: Recognizer, utterances: Sequence[Utterance], skipped: list[str], on_done: Callable[[], None]
) -> Iterator[HeardUtterance]:
    """Each utterance that can be read.

    Args:
        skipped: gets a line for each that cannot be read.
        on_done: called for each, read or not.
    """
    results = recognizer.log_probs_of_files(utterance.span for utterance in utterances)
    for utterance, (_, duration, result) in zip(utterances, results, strict=True):
        on_done()
        if isinstance(result, InputError):
            skipped.append(str(result))
        else:
            yield utterance, result, duration
