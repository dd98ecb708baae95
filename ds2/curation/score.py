"""How well each utterance of a manifest matches its text: the six features of Deep Speech 2's filter."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ds2.ctc import ctc_loss
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.text import normalize, split_words
from ds2.utils.errors import InputError

FEATURES = (
    "CTC cost",
    "CTC cost / frame",
    "CTC cost / character",
    "frames / character",
    "words",
    "characters",
)


def score(recognizer: Recognizer, utterances: Sequence[Utterance]) -> Iterator[Utterance | InputError]:
    """Yields each utterance with `cost` (nats), `frames` (of the model's output) and the `hypothesis` in its extra.

    For an utterance that cannot be read, or whose text is too long for its frames, yields the error.
    """
    results = recognizer.log_probs_of_files([utterance.span for utterance in utterances])
    for utterance, (_, duration, log_probs) in zip(utterances, results, strict=True):
        if isinstance(log_probs, InputError):
            yield log_probs
            continue
        try:
            cost = _cost(recognizer, torch.from_numpy(log_probs), normalize(utterance.text))
        except InputError as error:
            yield InputError(f"{utterance.audio_path}: {error}")
            continue
        hypothesis = recognizer.decode(log_probs, duration).text
        facts = {"hypothesis": hypothesis, "cost": round(cost, 3), "frames": len(log_probs)}
        before = {key: value for key, value in utterance.extra.items() if key != "given"}  # of an earlier correction
        yield replace(utterance, extra=before | facts)


def features(utterance: Utterance) -> list[float]:
    """The values of FEATURES of a scored utterance."""
    cost, frames = utterance.extra["cost"], utterance.extra["frames"]
    words, characters = len(split_words(utterance.text)), max(1, len(utterance.text))
    return [cost, cost / max(1, frames), cost / characters, frames / characters, words, characters]


def _cost(recognizer: Recognizer, log_probs: Tensor, text: str) -> float:
    """Negative log-probability of the text, in nats."""
    targets = torch.tensor(recognizer.tokenizer.encode(text))
    if not len(targets):
        raise InputError("its text is empty")
    lengths = torch.tensor([len(log_probs)]), torch.tensor([len(targets)])
    log_probs = log_probs[:, : len(recognizer.tokenizer)]
    cost = float(ctc_loss(log_probs[None], targets[None], *lengths, reduction="sum"))
    if not math.isfinite(cost):
        raise InputError(f"its {len(text)} characters do not fit into {len(log_probs)} frames")
    return cost
