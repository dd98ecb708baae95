"""Chooses the weights of a bundle's second pass on held-out utterances: the search runs once for each."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ds2.bundle import Bundle
from ds2.data.utterance import Utterance
from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.rescore import Rescorer
from ds2.metrics import ErrorCounts, character_errors, word_errors
from ds2.recognition.decoding import is_over_tokens
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tuning_utterances import heard_utterances
from ds2.text import split_words

KEPT = np.arange(0.3, 1.01, 0.1)
WEIGHTS = np.arange(0.0, 1.51, 0.1)
BONUSES = np.arange(-2.0, 4.01, 0.25)
AT_ONCE = 64  # utterances whose hypotheses the model scores together


@dataclass(frozen=True)
class SecondPass:
    """The result of a search for the best weights.

    Attributes:
        weight, bonus, kept: see `NeuralModelPart`.
        before: the error rate of the first pass alone.
        after: the error rate with both.
        skipped: a line for each utterance that could not be read.
    """

    weight: float
    bonus: float
    kept: float
    before: float
    after: float
    skipped: list[str]


@dataclass(frozen=True)
class Competitors:
    """The H hypotheses of an utterance.

    Attributes:
        errors: (H,) words, or characters, that each has wrong.
        scores: (H,) by the first pass.
        gains: (H,) what it has added for words.
        log_probs: (H,) by the model of the second pass.
        words: (H,) how many each has.
    """

    errors: np.ndarray
    scores: np.ndarray
    gains: np.ndarray
    log_probs: np.ndarray
    words: np.ndarray

    def wrong(self) -> np.ndarray:
        """(KEPT, WEIGHTS, BONUSES) errors of the hypothesis that each of them chooses."""
        searched = self.scores - self.gains + KEPT[:, None] * self.gains
        added = WEIGHTS[:, None, None] * self.log_probs + BONUSES[:, None] * self.words
        found: np.ndarray = self.errors[np.argmax(searched[:, None, None] + added, 3)]
        return found


def tune_second_pass(
    recognizer: Recognizer, utterances: Sequence[Utterance], on_utterance: Callable[[], None] = lambda: None
) -> SecondPass:
    """Tries all points of a grid; the best one is that whose neighbours are good, too.

    Args:
        recognizer: of the bundle, whose first pass is tuned.
        on_utterance: called for each utterance, when it has been heard.

    Raises:
        InputError: no utterance can be read.
    """
    rescorer = recognizer.builder.rescorer
    assert rescorer is not None
    builder = dataclasses.replace(recognizer.builder, rescorer=None)
    first_pass = Recognizer(recognizer.model, recognizer.tokenizer, recognizer.beam, builder)
    lm = recognizer.beam.lm if recognizer.beam is not None else None
    count = character_errors if lm is not None and is_over_tokens(lm, recognizer.tokenizer) else word_errors
    skipped: list[str] = []
    every = heard_utterances(recognizer, utterances, skipped, on_utterance)
    heard = [(utterance.text, first_pass.nbest([log_probs])[0]) for utterance, log_probs, _ in every]
    wrong, first = np.zeros((len(KEPT), len(WEIGHTS), len(BONUSES))), 0
    for each in _competitors(recognizer, rescorer, heard, count):
        wrong += each.wrong()
        first += each.errors[0]
    length = max(1, sum(count(text, "").reference_length for text, _ in heard))
    place = np.unravel_index(np.argmin(_smoothed(wrong)), wrong.shape)
    kept, weight, bonus = (
        round(float(values[i]), 2) for values, i in zip((KEPT, WEIGHTS, BONUSES), place, strict=True)
    )
    return SecondPass(
        weight=weight,
        bonus=bonus,
        kept=kept,
        before=first / length,
        after=float(wrong[place]) / length,
        skipped=skipped,
    )


def with_second_pass(bundle: Bundle, chosen: SecondPass) -> Bundle:
    """The bundle whose neural model has these weights."""
    assert bundle.neural_model is not None
    weight, bonus, kept = chosen.weight, chosen.bonus, chosen.kept
    part = dataclasses.replace(bundle.neural_model, weight=weight, bonus=bonus, kept=kept)
    return dataclasses.replace(bundle, neural_model=part)


def _competitors(
    recognizer: Recognizer,
    rescorer: Rescorer,
    heard: Sequence[tuple[str, list[Hypothesis]]],
    count: Callable[[str, str], ErrorCounts],
) -> Iterator[Competitors]:
    """Those of each utterance, from its text and its hypotheses."""
    for first in range(0, len(heard), AT_ONCE):
        group = heard[first : first + AT_ONCE]
        texts = [[recognizer.tokenizer.decode(each.tokens) for each in nbest] for _, nbest in group]
        sentences = [list(map(split_words, each)) for each in texts]
        log_probs = rescorer.lm.scores(sentences)
        for (reference, nbest), own, words, found in zip(group, texts, sentences, log_probs, strict=True):
            yield Competitors(
                errors=np.array([count(reference, " ".join(text.split())).errors for text in own]),
                scores=np.array([each.score for each in nbest]),
                gains=np.array([each.gains for each in nbest]),
                log_probs=np.array(found),
                words=np.array(list(map(len, words))),
            )


def _smoothed(errors: np.ndarray) -> np.ndarray:
    """Means of each point and its neighbours along all axes: a single good point may be chance."""
    for axis, size in enumerate(errors.shape):
        padded = np.pad(errors, [(int(axis == each),) * 2 for each in range(errors.ndim)], mode="edge")
        errors = np.mean([np.take(padded, np.arange(size) + shift, axis) for shift in range(3)], 0)
    return errors
