"""Several models as one: their log-probabilities are averaged in every frame."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.recognition.windows import Source
from ds2.utils.errors import InputError


class Ensemble:
    """Recognisers with the same tokens and frames; the first one decodes."""

    def __init__(self, recognizers: Sequence[Recognizer]):
        """At least one.

        Raises:
            InputError: models whose tokens, phones, biphones or frames differ.
        """
        self.recognizers = list(recognizers)
        shapes = [_shape(recognizer) for recognizer in recognizers]
        for recognizer, shape in zip(self.recognizers, shapes, strict=True):
            if shape != shapes[0]:
                names = f"{self.recognizers[0].name} and {recognizer.name}"
                same = "the same tokens, phones, biphones and frame_seconds"
                raise InputError(f"{names}: models of an ensemble must have {same}")

    def transcribe_files(self, sources: Iterable[Source]) -> Iterator[tuple[Source, Transcript | InputError]]:
        """As `Recognizer.transcribe_files`; every recording is read once by each model."""
        copies = itertools.tee(sources, len(self.recognizers))
        results = [each.log_probs_of_files(copy) for each, copy in zip(self.recognizers, copies, strict=True)]
        for of_models in zip(*results, strict=True):
            source, duration, _ = of_models[0]
            log_probs = [found for _, _, found in of_models]
            error = next((found for found in log_probs if isinstance(found, InputError)), None)
            yield source, error or self._decode([row for row in log_probs if isinstance(row, np.ndarray)], duration)

    def _decode(self, log_probs: Sequence[np.ndarray], duration: float) -> Transcript:
        first, frames = self.recognizers[0], min(map(len, log_probs))
        rows = np.stack([row[:frames] for row in log_probs])
        return first.decode(mean(rows, len(first.tokenizer), first.model.config.phones), duration)


def mean(log_probs: np.ndarray, tokens: int, phones: int) -> np.ndarray:
    """(M, T, V + P + Q) log-probabilities and scores of M models -> (T, V + P + Q), their mean.

    The first V = `tokens` outputs are those of the tokens, the next P = `phones` those of phones; each of the two is a
    geometric mean, normalised again. The others are scores of biphones, which sum up to nothing.
    """
    *probable, scores = np.split(log_probs.mean(0), [tokens, tokens + phones], axis=1)
    normalised = [part - np.logaddexp.reduce(part, axis=1, keepdims=True) for part in probable]
    return np.concatenate([*normalised, scores], axis=1)


def _shape(recognizer: Recognizer) -> tuple[object, ...]:
    config = recognizer.model.config
    return tuple(recognizer.tokenizer.tokens), config.phones, config.pairs, round(config.frame_seconds, 6)
