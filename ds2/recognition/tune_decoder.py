"""Chooses a decoder's weights and beam on held-out utterances; the acoustic model runs once for each utterance."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ds2.bundle import Bundle
from ds2.data.utterance import Utterance
from ds2.decoder import greedy
from ds2.decoder.beam import BeamConfig, BeamDecoder
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.ngram import NGram
from ds2.metrics import ErrorCounts, character_errors, word_errors
from ds2.recognition.decoding import (
    bundled_model,
    is_over_tokens,
    search,
    search_phones,
    with_decoder,
)
from ds2.recognition.grid_search import Point, best, coarse_to_fine
from ds2.recognition.recognizer import Recognizer
from ds2.text import Tokenizer
from ds2.utils.errors import InputError, ParameterError

LOW, HIGH = (0.0, -2.0), (2.4, 4.0)  # lowest and highest lm_weight, word_bonus
WIDTHS = (8, 16, 32, 64, 128, 256)
TUNING_WIDTH = 64  # beam width during the search for the weights
TOLERANCE = 1.005  # a narrower beam may raise the error rate by this factor
PHONE_THRESHOLD = 14.0  # score_threshold for phones: a pronunciation carries less information than letters
PRIOR_WEIGHTS = (0.0, 0.2, 0.4, 0.6)  # exponents of the phones' priors by which posteriors are divided
PRIOR_TRIAL = (0.8, -0.5)  # lm_weight and word_bonus for the comparison of these
MOST_DECODINGS = 3 * 25 + len(WIDTHS) + len(PRIOR_WEIGHTS)


@dataclass(frozen=True)
class Tuning:
    """The result of a search for weights.

    Attributes:
        config: the best weights, and the narrowest beam that is as good.
        surface: (lm_weight, word_bonus) -> error rate.
        widths: beam width -> error rate at the best weights.
        unit: "WER", or "CER" for a language model over tokens.
        greedy: the error rate of greedy decoding.
        skipped: a line for each utterance that could not be read.
        phone_prior: (P,) nats to subtract from the phones' scores; None if the search is by letters.
    """

    config: BeamConfig
    surface: dict[Point, float]
    widths: dict[int, float]
    unit: str
    greedy: float
    skipped: list[str]
    phone_prior: Tensor | None = None


def tune(
    recognizer: Recognizer,
    lm: NGram,
    utterances: Sequence[Utterance],
    closed: bool,
    on_point: Callable[[], None],
    pronunciations: Pronunciations | None = None,
) -> Tuning:
    """Searches the weights on grids that become finer, then the beam.

    First it divides the phones' posteriors by a power of their priors, the best of a few: the search needs likelihoods
    (Miao et al. 2015, "EESEN", section 3.3), and the blank, the most frequent output of CTC, keeps rare phones out.

    Args:
        recognizer: gives the model and the tokens; its decoder is not used.
        closed: find only words of the language model.
        on_point: called before each decoding, at most MOST_DECODINGS times.
        pronunciations: if given, the search is by phones.

    Raises:
        InputError: no utterance can be read.
        ParameterError: there are pronunciations, but the model has no outputs for phones.
    """
    references, rows, skipped = _log_probs(recognizer, utterances)
    tokenizer, prior = recognizer.tokenizer, None
    over_tokens = is_over_tokens(lm, tokenizer)
    config = BeamConfig(TUNING_WIDTH, closed=closed and not over_tokens)
    count, unit = (character_errors, "CER") if over_tokens else (word_errors, "WER")

    def error(config: BeamConfig, taken_off: Tensor | float = 0.0) -> float:
        on_point()
        beam = search_phones(tokenizer, config, lm, pronunciations) if pronunciations else search(tokenizer, config, lm)
        texts = decode(beam, [row - taken_off for row in rows], tokenizer)
        return sum(map(count, references, texts), ErrorCounts()).rate

    if pronunciations:
        config = dataclasses.replace(config, score_threshold=PHONE_THRESHOLD)
        prior = best_prior(error, config, log_prior(rows, len(tokenizer)))
        rows = [row - prior for row in rows]
    surface = coarse_to_fine(lambda p: error(dataclasses.replace(config, lm_weight=p[0], word_bonus=p[1])), LOW, HIGH)
    weight, bonus = best(surface)
    config = dataclasses.replace(config, lm_weight=weight, word_bonus=bonus)
    widths = {width: error(dataclasses.replace(config, beam_width=width)) for width in WIDTHS}
    good = min(width for width in WIDTHS if widths[width] <= TOLERANCE * min(widths.values()))
    without = sum(map(count, references, decode(None, rows, tokenizer)), ErrorCounts()).rate
    config = dataclasses.replace(config, beam_width=good)
    taken_off = None if prior is None else prior[len(tokenizer) :]
    return Tuning(config, dict(surface), widths, unit, without, skipped, taken_off)


def best_prior(error: Callable[[BeamConfig, Tensor], float], config: BeamConfig, prior: Tensor) -> Tensor:
    """The multiple of the log-priors, of PRIOR_WEIGHTS, that gives the fewest errors when taken off the scores."""
    trial = dataclasses.replace(config, lm_weight=PRIOR_TRIAL[0], word_bonus=PRIOR_TRIAL[1])
    return prior * min(PRIOR_WEIGHTS, key=lambda weight: error(trial, weight * prior))


def log_prior(rows: Sequence[Tensor], tokens: int) -> Tensor:
    """(T, V + P) log-probabilities of each utterance -> (V + P,) log mean probabilities of phones, after V zeros."""
    if rows[0].shape[1] == tokens:
        raise ParameterError("lexicon", "the model has no outputs for phones; train it with data.lexicon")
    prior = torch.cat(list(rows)).exp().mean(0).log()
    prior[:tokens] = 0.0
    return prior


def tuned_bundle(bundle: Bundle, tuning: Tuning, lm: NGram, pronunciations: Pronunciations | None = None) -> Bundle:
    """The bundle with the tuned decoder; the output layer's bias takes the priors, where they cost nothing."""
    if tuning.phone_prior is not None:
        bias = bundle.weights["phone_output.bias"]
        weights = {**bundle.weights, "phone_output.bias": (bias.float() - tuning.phone_prior).to(bias.dtype)}
        bundle = dataclasses.replace(bundle, weights=weights)
    return with_decoder(bundle, tuning.config, lm, pronunciations)


def decode(beam: BeamDecoder | PronouncingDecoder | None, rows: Sequence[Tensor], tokenizer: Tokenizer) -> list[str]:
    """(T, V) or (T, V + P) log-probabilities of each utterance -> its text; greedy decoding if there is no beam."""
    padded = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    if not isinstance(beam, PronouncingDecoder):
        padded = padded[..., : len(tokenizer)]
    found = greedy(padded, lengths) if beam is None else [nbest[0] for nbest in beam(padded, lengths)]
    return [" ".join(tokenizer.decode(hypothesis.tokens).split()) for hypothesis in found]


def choose_model(bundle: Bundle, lm: NGram | None, path: Path) -> NGram:
    """The language model `lm`, or that of the bundle.

    Raises:
        ParameterError: neither exists.
    """
    model = lm or bundled_model(bundle)
    if model is None:
        raise ParameterError("lm", f"{path} holds no language model; name one")
    return model


def _log_probs(recognizer: Recognizer, utterances: Sequence[Utterance]) -> tuple[list[str], list[Tensor], list[str]]:
    """Texts and (T, V) log-probabilities of all readable utterances, and a line for each of the others."""
    references, rows, skipped = [], [], []
    results = recognizer.log_probs_of_files(utterance.segment for utterance in utterances)
    for utterance, (_, _, result) in zip(utterances, results, strict=True):
        if isinstance(result, InputError):
            skipped.append(str(result))
        else:
            references.append(utterance.text)
            rows.append(torch.from_numpy(result))
    if not rows:
        raise InputError(f"{skipped[0]} (and so on: none of {len(skipped)} utterances can be read)")
    return references, rows, skipped
