"""Chooses a decoder's weights and beam on held-out utterances; the acoustic model runs once for each utterance."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ds2.bundle import Bundle
from ds2.data.utterance import Utterance
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.greedy import greedy
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.ngram import NGram
from ds2.metrics import ErrorCounts, character_errors, word_errors
from ds2.recognition.bundled_search import bundled_model, bundled_pronunciations, with_decoder, with_language_model
from ds2.recognition.decoding import (
    beam_config,
    is_over_tokens,
    make_beam,
    make_beam_decoder,
    pronunciations_for,
    search_phones,
    spellable,
    with_own_words,
)
from ds2.recognition.foreign_words import warn_of_foreign_search
from ds2.recognition.grid_search import Point, around, best, coarse_to_fine
from ds2.recognition.options import DEFAULT_OPTIONS, DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tuning_utterances import heard_utterances
from ds2.text import Tokenizer
from ds2.utils.errors import ParameterError

LOW, HIGH = (0.0, -2.0), (2.4, 4.0)  # lowest and highest lm_weight, word_bonus
WIDTHS = (8, 16, 32, 64, 128, 256, 512)
FIRST_WIDTH, LAST_WIDTH = 64, 256  # beam widths of the coarse grids and of the finest: wide beams like other weights
TOLERANCE = 1.005  # a narrower beam or a lower threshold may raise the error rate by this factor
THRESHOLDS = (6.0, 8.0, 10.0, 12.0, 14.0)  # score_threshold
PHONE_THRESHOLD = 14.0  # while weights are searched for phones: a pronunciation carries less information than letters
PRIOR_WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.6)  # exponents of the phones' priors by which posteriors are divided
PRIOR_TRIAL = (0.8, -0.5)  # lm_weight and word_bonus for the comparison of these, in a bundle without weights
# The bundle as it is, the priors, three grids and the bundle's own weights, widths and thresholds with its own.
MOST_DECODINGS = 1 + len(PRIOR_WEIGHTS) + 3 * 25 + 1 + len(WIDTHS) + 1 + len(THRESHOLDS) + 1


@dataclass(frozen=True)
class Tuning:
    """The result of a search for weights.

    Attributes:
        config: the best weights, and the narrowest beam and the lowest threshold that are as good.
        before: the error rate of the bundle as it was.
        after: the error rate with `config`.
        surface: (lm_weight, word_bonus) -> error rate.
        widths: beam width -> error rate at the best weights.
        unit: "WER", or "CER" for a language model over tokens.
        greedy: the error rate of greedy decoding.
        skipped: a line for each utterance that could not be read.
        phone_prior: (P,) nats to subtract from the phones' scores; None if the search is by letters.
    """

    config: BeamConfig
    before: float
    after: float
    surface: dict[Point, float]
    widths: dict[float, float]
    unit: str
    greedy: float
    skipped: list[str]
    phone_prior: Tensor | None = None


def tune(
    recognizer: Recognizer,
    bundle: Bundle,
    candidate: Bundle,
    utterances: Sequence[Utterance],
    closed: bool = False,
    on_point: Callable[[], None] = lambda: None,
) -> Tuning:
    """Searches the weights on grids that become finer, then the beam, then its threshold.

    First it divides the phones' posteriors by a power of their priors, the best of a few: the search needs likelihoods
    (Miao et al. 2015, "EESEN", section 3.3), and the blank, the most frequent output of CTC, keeps rare phones out.

    Args:
        recognizer: gives the model and the tokens; its decoder is not used.
        bundle: as it is, for the error rate before.
        candidate: the same with the language model and the pronunciations whose weights are searched.
        closed: find only words of the language model.
        on_point: called before each decoding, at most MOST_DECODINGS times.

    Raises:
        InputError: no utterance can be read.
    """
    references, rows, skipped = _log_probs(recognizer, utterances)
    tokenizer = recognizer.tokenizer
    trials = Trials.of(candidate, tokenizer, references, rows, on_point)
    before, without = trials.rate(make_beam(tokenizer, bundle, DEFAULT_OPTIONS)), trials.rate(None)

    own = beam_config(candidate.decoder, DEFAULT_OPTIONS, bool(trials.vocabulary))
    config, has_weights = trials.first(own, closed), candidate.decoder is not None
    prior = None
    if trials.pronunciations is not None:
        trial = config if has_weights else _weighted(config, PRIOR_TRIAL)
        prior = best_prior(trials, trial, log_prior(rows, len(tokenizer), candidate.phones))
        trials = trials.less(prior)
    config, surface = weights(trials, config, own, has_weights)

    # Then what saves time: a narrower beam, a lower threshold.
    config, widths = trials.as_good(config, "beam_width", {*WIDTHS, own.beam_width}, before)
    config, thresholds = trials.as_good(config, "score_threshold", {*THRESHOLDS, own.score_threshold}, before)
    after, unit = thresholds[config.score_threshold], "CER" if trials.over_tokens else "WER"
    taken_off = None if prior is None else prior[len(tokenizer) : len(tokenizer) + candidate.phones]
    return Tuning(config, before, after, surface, widths, unit, without, skipped, taken_off)


def weights(
    trials: "Trials", config: BeamConfig, own: BeamConfig, has_weights: bool
) -> tuple[BeamConfig, dict[Point, float]]:
    """The configuration with the best weights and a wide beam, and the error of each point: coarse grids by `config`,
    the finest one with the wide beam. The bundle's own weights, if it has any, take part in that."""
    surface = dict(coarse_to_fine(lambda point: trials.error(_weighted(config, point)), LOW, HIGH, rounds=2))
    config = dataclasses.replace(config, beam_width=max(own.beam_width, LAST_WIDTH))
    window = around(best(surface), LOW, HIGH, rounds=2)
    finest = dict(coarse_to_fine(lambda point: trials.error(_weighted(config, point)), *window, rounds=1))
    if has_weights:
        finest[own.lm_weight, own.word_bonus] = trials.error(config)
    return _weighted(config, best(finest)), surface | finest


@dataclass(frozen=True)
class Trials:
    """Decodes the same utterances by the language model of a bundle with any configuration.

    Attributes:
        rows: (T, V) or (T, V + P + Q) log-probabilities of each utterance.
        on_point: called before each decoding.
    """

    tokenizer: Tokenizer
    lm: NGram
    vocabulary: list[str] | None
    pronunciations: Pronunciations | None
    phone_outputs: int  # P
    references: Sequence[str]
    rows: Sequence[Tensor]
    on_point: Callable[[], None]

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        tokenizer: Tokenizer,
        references: Sequence[str],
        rows: Sequence[Tensor],
        on_point: Callable[[], None],
    ) -> "Trials":
        """Prepares trials with a bundle's model: `rows` are (T, V) log-probabilities; each trial calls `on_point`."""
        lm = bundled_model(bundle)
        assert lm is not None
        pronunciations = pronunciations_for(lm, bundle, tokenizer)
        return cls(tokenizer, lm, bundle.vocabulary, pronunciations, bundle.phones, references, rows, on_point)

    @property
    def over_tokens(self) -> bool:
        """Whether characters count as errors, not words."""
        return is_over_tokens(self.lm, self.tokenizer)

    def less(self, prior: Tensor) -> "Trials":
        """The same with (V + P + Q,) nats taken off all log-probabilities."""
        return dataclasses.replace(self, rows=[row - prior for row in self.rows])

    def first(self, own: BeamConfig, closed: bool) -> BeamConfig:
        """The bundle's own configuration with the beam in which weights are first searched; phones are recombined, and
        characters that sound alike are told apart at once."""
        threshold = BeamConfig.score_threshold if self.pronunciations is None else PHONE_THRESHOLD
        return dataclasses.replace(
            own,
            beam_width=FIRST_WIDTH,
            score_threshold=max(threshold, own.score_threshold),
            closed=(closed or own.closed) and not self.over_tokens,
            recombine=own.recombine or self.pronunciations is not None,
            eager=own.eager or (self.pronunciations is not None and " " not in self.tokenizer.index),
        )

    def error(self, config: BeamConfig) -> float:
        """The error rate with a configuration."""
        if self.pronunciations is not None:
            return self.rate(
                search_phones(self.tokenizer, config, self.lm, self.pronunciations, outputs=self.phone_outputs)
            )
        return self.rate(make_beam_decoder(self.tokenizer, config, self.lm, self.vocabulary))

    def rate(self, beam: BeamDecoder | PronouncingDecoder | None) -> float:
        """The error rate of a search, or of greedy decoding."""
        self.on_point()
        count = character_errors if self.over_tokens else word_errors
        return sum(map(count, self.references, decode_batch(beam, self.rows, self.tokenizer)), ErrorCounts()).rate

    def as_good(
        self, config: BeamConfig, name: str, values: Iterable[float], before: float
    ) -> tuple[BeamConfig, dict[float, float]]:
        """The configuration with the lowest of the values that is as good as the best and not worse than `before`, if
        there is one; and the error rate of each value."""
        changes: dict[float, dict[str, Any]] = {value: {name: value} for value in sorted(values)}
        choices = {value: dataclasses.replace(config, **change) for value, change in changes.items()}
        errors = {value: self.error(choice) for value, choice in choices.items()}
        least = min(errors.values())
        enough = min(TOLERANCE * least, max(before, least))
        return next(choices[value] for value, error in errors.items() if error <= enough), errors


def _weighted(config: BeamConfig, point: Point) -> BeamConfig:
    return dataclasses.replace(config, lm_weight=point[0], word_bonus=point[1])


def best_prior(trials: Trials, config: BeamConfig, prior: Tensor) -> Tensor:
    """(V + P + Q,) log-priors -> their multiple, of PRIOR_WEIGHTS, with the fewest errors when taken off the scores."""
    return prior * min(PRIOR_WEIGHTS, key=lambda weight: trials.less(weight * prior).error(config))


def log_prior(rows: Sequence[Tensor], tokens: int, phones: int) -> Tensor:
    """(T, V + P + Q) of each utterance -> (V + P + Q,) log mean probabilities of phones between V and Q zeros."""
    prior, own = torch.zeros(rows[0].shape[1]), slice(tokens, tokens + phones)
    prior[own] = torch.cat([row[:, own] for row in rows]).exp().mean(0).log()
    return prior


def candidate_bundle(bundle: Bundle, lm: NGram | None, pronunciations: Pronunciations | None) -> Bundle:
    """The bundle with the language model, by default its own, and its own pronunciations and these, which go before
    its own of the same words; their weights will be searched.

    Raises:
        ParameterError: there is no language model; there are pronunciations, but the model has no outputs for phones.
    """
    if pronunciations is not None and not bundle.phones:
        raise ParameterError("lexicon", "the model has no outputs for phones; train it with data.lexicon")
    if (model := lm or bundled_model(bundle)) is None:
        raise ParameterError("lm", "the bundle holds no language model; name one")
    if lm is None and pronunciations is None:
        return bundle
    if pronunciations is not None and (own := bundled_pronunciations(bundle)) is not None:
        pronunciations = Pronunciations.of(own.to_dict() | pronunciations.to_dict())
    if pronunciations is None:
        pronunciations = pronunciations_for(model, bundle, Tokenizer(bundle.tokens))
    if pronunciations is not None:
        spoken = pronunciations.to_dict()
        letters = Tokenizer(bundle.tokens)
        pronunciations = Pronunciations.of({word: spoken[word] for word in spellable(list(spoken), letters)})
        pronunciations = with_own_words(pronunciations, model, letters, bundle)
    else:
        warn_of_foreign_search(model, Tokenizer(bundle.tokens), dataclasses.replace(bundle, language_model=None))
    return with_language_model(bundle, model, pronunciations)


def tuned_bundle(candidate: Bundle, tuning: Tuning) -> Bundle:
    """The candidate with the tuned decoder; the output layer's bias takes the priors, where they cost nothing."""
    if tuning.phone_prior is not None:
        bias = candidate.weights["phone_output.bias"]
        weights = {**candidate.weights, "phone_output.bias": (bias.float() - tuning.phone_prior).to(bias.dtype)}
        candidate = dataclasses.replace(candidate, weights=weights)
    return with_decoder(candidate, tuning.config)


def borrow_search(model: Path, source: Bundle, utterances: Sequence[Utterance]) -> Bundle:
    """A model with the language model of another bundle, and its pronunciations where it has outputs for phones; the
    weights are tuned on utterances."""
    bundle, recognizer = Bundle.load(model), Recognizer.load(model, options=DecoderOptions(beam=0))
    pronunciations = bundled_pronunciations(source) if bundle.phones else None
    candidate = candidate_bundle(bundle, bundled_model(source), pronunciations)
    return tuned_bundle(candidate, tune(recognizer, bundle, candidate, utterances))


def decode_batch(
    beam: BeamDecoder | PronouncingDecoder | None, rows: Sequence[Tensor], tokenizer: Tokenizer
) -> list[str]:
    """(T, V) or (T, V + P + Q) log-probabilities of each utterance -> its text; greedy decoding if there is no beam."""
    padded = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    if not isinstance(beam, PronouncingDecoder):
        padded = padded[..., : len(tokenizer)]
    found = greedy(padded, lengths) if beam is None else [nbest[0] for nbest in beam(padded, lengths)]
    return [" ".join(tokenizer.decode(hypothesis.tokens).split()) for hypothesis in found]


def _log_probs(recognizer: Recognizer, utterances: Sequence[Utterance]) -> tuple[list[str], list[Tensor], list[str]]:
    """Texts and (T, V) log-probabilities of all readable utterances, and a line for each of the others."""
    skipped: list[str] = []
    every = list(heard_utterances(recognizer, utterances, skipped, lambda: None))
    return [each.text for each, _, _ in every], [torch.from_numpy(log_probs) for _, log_probs, _ in every], skipped
