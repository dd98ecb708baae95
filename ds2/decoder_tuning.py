"""Choosing a decoder's weights and beam on held-out utterances; the acoustic model hears each of them once."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ds2.bundle import Bundle
from ds2.data.manifest import Utterance
from ds2.decoder.beam import BeamConfig, BeamDecoder
from ds2.decoder.ngram import NGram
from ds2.decoder.pronouncing import PronouncingDecoder
from ds2.decoder.tune import Point, best, coarse_to_fine
from ds2.decoding import Pronunciations, bundled_model, is_over_tokens, search, search_phones, with_decoder
from ds2.errors import InputError
from ds2.files import whole_file
from ds2.metrics import ErrorCounts, character_errors, word_errors
from ds2.recognizer import Recognizer, Segment
from ds2.text import Tokenizer

LOW, HIGH = (0.0, -2.0), (2.4, 4.0)  # lm_weight and word_bonus that are tried
WIDTHS = (8, 16, 32, 64, 128, 256)
TUNING_WIDTH = 64  # beam while the weights are searched for
TOLERANCE = 1.005  # errors that a narrower beam may cost
PRIOR_WEIGHTS = (0.0, 0.2, 0.4, 0.6)  # powers of the phones' priors that posteriors are divided by
PRIOR_TRIAL = (0.8, -0.5)  # lm_weight and word_bonus while these are compared
MOST_DECODINGS = 3 * 25 + len(WIDTHS) + len(PRIOR_WEIGHTS)


@dataclass(frozen=True)
class Tuning:
    """What was found.

    Attributes:
        config: the best weights, and the narrowest beam that is as good.
        surface: (lm_weight, word_bonus) -> error rate. widths: beam -> error rate at the best weights.
        unit: "WER", or "CER" for a language model over tokens.
        greedy: error rate without a search.
        skipped: a line for each utterance that could not be read.
        phone_prior: (P,) nats that are taken off the phones' scores; None: the search is by letters.
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
    """Searches the weights on a grid that grows finer, then the beam.

    Phones' posteriors are divided by a power of their priors first, the best of a few: the search wants likelihoods
    (Miao et al. 2015, "EESEN", section 3.3), and the blank, which is most of what CTC says, keeps rare phones out.

    Args:
        recognizer: decodes greedily.
        closed: no words but the language model's are found.
        pronunciations: the search is by phones.

    Raises:
        InputError: not one utterance can be read.
    """
    references, rows, skipped = _listen(recognizer, utterances)
    tokenizer = recognizer.tokenizer
    over_tokens = is_over_tokens(lm, tokenizer)
    config = BeamConfig(TUNING_WIDTH, closed=closed and not over_tokens)
    count = character_errors if over_tokens else word_errors

    def error(config: BeamConfig, taken_off: Tensor | float = 0.0) -> float:
        on_point()
        beam = search_phones(tokenizer, config, lm, pronunciations) if pronunciations else search(tokenizer, config, lm)
        texts = decode(beam, [row - taken_off for row in rows], tokenizer)
        return sum(map(count, references, texts), ErrorCounts()).rate

    prior = None
    if pronunciations:
        prior = log_prior(rows, len(tokenizer))
        trial = dataclasses.replace(config, lm_weight=PRIOR_TRIAL[0], word_bonus=PRIOR_TRIAL[1])
        prior = prior * min(PRIOR_WEIGHTS, key=lambda weight: error(trial, weight * prior))
        rows = [row - prior for row in rows]
    surface = coarse_to_fine(lambda p: error(dataclasses.replace(config, lm_weight=p[0], word_bonus=p[1])), LOW, HIGH)
    weight, bonus = best(surface)
    config = dataclasses.replace(config, lm_weight=weight, word_bonus=bonus)
    widths = {width: error(dataclasses.replace(config, beam_width=width)) for width in WIDTHS}
    good = min(width for width in WIDTHS if widths[width] <= TOLERANCE * min(widths.values()))
    greedy = sum(map(count, references, decode(None, rows, tokenizer)), ErrorCounts()).rate
    config = dataclasses.replace(config, beam_width=good)
    taken_off = None if prior is None else prior[len(tokenizer) :]
    return Tuning(config, dict(surface), widths, "CER" if over_tokens else "WER", greedy, skipped, taken_off)


def log_prior(rows: Sequence[Tensor], tokens: int) -> Tensor:
    """(T, V + P) log-probabilities of each utterance -> (V + P,) logs of the phones' mean probabilities; V zeros."""
    prior = torch.cat(list(rows)).exp().mean(0).log()
    prior[:tokens] = 0.0
    return prior


def tuned_bundle(bundle: Bundle, tuning: Tuning, lm: NGram, pronunciations: Pronunciations | None = None) -> Bundle:
    """The bundle with what was found; the priors go into the output layer's bias, where they cost nothing."""
    if tuning.phone_prior is not None:
        bias = bundle.weights["phone_output.bias"]
        weights = {**bundle.weights, "phone_output.bias": (bias.float() - tuning.phone_prior).to(bias.dtype)}
        bundle = dataclasses.replace(bundle, weights=weights)
    return with_decoder(bundle, tuning.config, lm, pronunciations)


def decode(beam: BeamDecoder | PronouncingDecoder | None, rows: Sequence[Tensor], tokenizer: Tokenizer) -> list[str]:
    """(T, V) or (T, V + P) log-probabilities of each utterance -> its text; greedily without a beam."""
    from ds2.decoder import greedy

    padded = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    if not isinstance(beam, PronouncingDecoder):
        padded = padded[..., : len(tokenizer)]
    found = greedy(padded, lengths) if beam is None else [nbest[0] for nbest in beam(padded, lengths)]
    return [" ".join(tokenizer.decode(hypothesis.tokens).split()) for hypothesis in found]


def choose_model(bundle: Bundle, lm: NGram | None, path: Path) -> NGram:
    """The language model that is named, or the bundle's own.

    Raises:
        InputError: there is neither.
    """
    model = lm or bundled_model(bundle)
    if model is None:
        raise InputError(f"{path}: holds no language model; name one with --lm")
    return model


def draw(tuning: Tuning, path: Path) -> None:
    """The surface of the error rate over both weights, and its fall with the width of the beam."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    weights, bonuses = zip(*tuning.surface, strict=True)
    percent = [100 * error for error in tuning.surface.values()]
    filled = left.tricontourf(weights, bonuses, percent, levels=20, cmap="viridis_r")
    left.plot(weights, bonuses, "k.", markersize=2)
    left.plot(tuning.config.lm_weight, tuning.config.word_bonus, "r*", markersize=12)
    left.set(xlabel="lm_weight", ylabel="word_bonus, nats")
    figure.colorbar(filled, ax=left, label=f"{tuning.unit}, %")
    right.plot(list(tuning.widths), [100 * error for error in tuning.widths.values()], "o-", label="beam")
    right.axhline(100 * tuning.greedy, color="gray", linestyle="--", label="greedy")
    right.set(xlabel="beam width", ylabel=f"{tuning.unit}, %", xscale="log")
    right.legend()
    with whole_file(path) as partial:
        figure.savefig(partial, dpi=110, format="png")
    plt.close(figure)


def _listen(recognizer: Recognizer, utterances: Sequence[Utterance]) -> tuple[list[str], list[Tensor], list[str]]:
    """Texts and (T, V) log-probabilities of all utterances that can be read, and a line for each that cannot."""
    references, rows, skipped = [], [], []
    segments = [Segment(u.audio_path, u.offset or 0.0, None if u.offset is None else u.duration) for u in utterances]
    for utterance, (_, _, result) in zip(utterances, recognizer.log_probs_of_files(segments), strict=True):
        if isinstance(result, InputError):
            skipped.append(str(result))
        else:
            references.append(utterance.text)
            rows.append(result)
    if not rows:
        raise InputError(f"{skipped[0]} (and so on: none of {len(skipped)} utterances can be read)")
    return references, rows, skipped
