"""The beam search of a bundle, with its vocabulary or language model and the options that the caller gave."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import CLOSED_BEAM_WIDTH, BeamConfig
from ds2.decoder.hot_phrases import words_of
from ds2.decoder.letter_to_sound import with_guesses
from ds2.decoder.lexicon import NO_WORD, Lexicon
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.decoder.pronunciations import MOST_LETTERS, Pronunciations
from ds2.lm.ngram import NGram
from ds2.model_record import Record
from ds2.recognition.bundled_search import bundled_model, bundled_pronunciations, load_search_model
from ds2.recognition.hot_spelling import hot_spelt_by
from ds2.recognition.options import DecoderOptions, hot_words
from ds2.text import MODEL_MARKS, POSSESSIVE, Tokenizer, count_words, possessives
from ds2.utils.config import from_dict
from ds2.utils.errors import InputError, ParameterError, some_of

CONFIDENCE_HYPOTHESES = 30  # n-best hypotheses that give the confidence of words
MOST_GUESSED = 20_000  # pronunciations of a language model's words: some seconds
SMALL_MODEL = 5000  # words: ordinary speech has more, commands have fewer
PHONE_SYMBOLS = 600  # labels tried in each frame: all phones with the copies of each, where words have spaces

logger = logging.getLogger(__name__)


def make_beam(tokenizer: Tokenizer, bundle: Record, options: DecoderOptions) -> BeamDecoder | PronouncingDecoder | None:
    """The beam search of a bundle, or None for greedy decoding.

    A bundle with pronunciations is searched by phones, with the caller's language model as well. Words without a
    pronunciation are not found then.

    Raises:
        InputError: a language model cannot be read.
        ParameterError: the search cannot use a language model, or the alphabet cannot spell a hot word.

    Logs a warning for hot words, also of phrases, that the bundle's closed vocabulary lacks: they were never learnt;
    and for letters alone where the model hears phones.
    """
    lm = load_search_model(options.lm) if options.lm is not None else bundled_model(bundle)
    if lm is None and not (options.lm_weight is options.word_bonus is None):
        name = "lm_weight" if options.lm_weight is not None else "word_bonus"
        raise ParameterError(name, "there is no language model to weigh: the model's bundle holds none; name one (lm)")
    vocabulary = bundle.vocabulary if options.lm is None else None
    if options.beam == 0 or (options.beam is None and not (lm or vocabulary or options.hot)):
        return None
    config = beam_config(bundle.decoder, options, closed=bool(vocabulary))
    if bundle.confidence is not None:
        config = dataclasses.replace(config, nbest=CONFIDENCE_HYPOTHESES)
    boosts = hot_spelt_by(tokenizer, hot_words(options.hot))
    hot = words_of(boosts)
    if vocabulary and (foreign := [word for word in hot if word not in vocabulary]):
        logger.warning(
            "hot: %s: hardly any effect, the model learnt only %d words: %s ...",
            ", ".join(foreign), len(vocabulary), ", ".join(vocabulary[:3]),
        )  # fmt: skip
    # With pronunciations the search is by phones; without, by letters.
    if lm is not None and (pronunciations := pronunciations_for(lm, bundle, tokenizer, hot)) is not None:
        if options.lm is not None:
            warn_of_small_model(lm, bundle)
            pronunciations = with_own_words(pronunciations, lm, tokenizer, bundle)
        pronunciations = _pronounced_hot(pronunciations, hot, tokenizer) if hot else pronunciations
        return search_phones(tokenizer, config, lm, pronunciations, boosts, bundle.phones)
    return make_beam_decoder(tokenizer, config, lm, vocabulary, boosts)


def pronunciations_for(
    lm: NGram, bundle: Record, tokenizer: Tokenizer, others: Sequence[str] = ()
) -> Pronunciations | None:
    """The bundle's pronunciations of a language model's words, and of some others.

    None if it has none of the former, or these are the letters of words with spaces between them.
    """
    known = bundled_pronunciations(bundle)
    if known is None or (" " in tokenizer.index and is_over_tokens(lm, tokenizer)):
        return None
    found, lacking = known.among(lm.words), [word for word in others if word not in lm.index]
    if not len(found.pronounced):
        return None
    return known.among([*lm.words, *lacking]) if lacking else found


def _pronounced_hot(pronunciations: Pronunciations, typed: Sequence[str], tokenizer: Tokenizer) -> Pronunciations:
    """With pronunciations of all hot words that the model can spell: their letters say how they sound where words have
    spaces. Logs which are guesses, and which words have none."""
    spaced, known = " " in tokenizer.index, pronunciations.known()
    # A name that is new has a possessive, where any word has one.
    hot, new = list(typed), [word for word in typed if word not in known]
    if new and any(word.endswith(POSSESSIVE) for word in known):
        hot += possessives(new).values()
    guessed = with_guesses(pronunciations, spellable(hot, tokenizer)) if spaced else pronunciations
    found = guessed.known()
    if new := sorted(found.intersection(new)):
        logger.warning(
            "hot: %s: unknown to the model; how that sounds is guessed from the letters", some_of(new, 20, "word")
        )
    if silent := sorted(set(typed) - found):
        remedy = "; write numbers as words" if any(map(str.isdigit, "".join(silent))) else ""
        logger.warning("hot: %s: without a pronunciation, and not found%s", some_of(silent, 20, "word"), remedy)
    return guessed


def with_own_words(pronunciations: Pronunciations, lm: NGram, tokenizer: Tokenizer, bundle: Record) -> Pronunciations:
    """With guesses for the words of a caller's language model that have no pronunciation and are new to the bundle's,
    where most have one: else it is one of another language. Logs which are guesses, and which words are not found."""
    own = () if bundle.language_model is None else bundle.language_model.words
    words = set(lm.words).difference(MODEL_MARKS)
    if not (silent := words.difference(pronunciations.known(), own)):
        return pronunciations
    remedy = "ds2 tune-decoder takes pronunciations from a lexicon in CMUdict's format"
    if " " in tokenizer.index and len(silent) <= min(MOST_GUESSED, len(words) / 2):
        words_of_letters = [word for word in spellable(list(silent), tokenizer) if len(word) <= MOST_LETTERS]
        pronunciations = with_guesses(pronunciations, words_of_letters)
        if guessed := silent & pronunciations.known():
            named = some_of(_likeliest(guessed, lm), kind="word")
            logger.warning("lm: new to the model: %s; how that sounds is guessed from the letters; %s", named, remedy)
            silent -= guessed
    if silent:
        share, named = f"{len(silent):,} of its {len(words):,} words", some_of(_likeliest(silent, lm), kind="word")
        logger.warning("lm: without a pronunciation, and not found unless hot, are %s: %s; %s", share, named, remedy)
    return pronunciations


def _likeliest(words: Iterable[str], lm: NGram) -> list[str]:
    """The words, the most frequent first."""
    return sorted(words, key=lambda word: (-float(lm.single_log_probs[lm.index[word]]), word))


def warn_of_small_model(lm: NGram, bundle: Record) -> None:
    """Logs that a search by phones finds no words besides those of a small language model, or of one that knows less
    than half as many as the bundle's."""
    own = 0 if bundle.language_model is None else len(bundle.language_model.words)
    if (count := count_words(lm.words)) < max(SMALL_MODEL, own / 2):
        logger.warning(
            "lm: it knows %s words, and besides hot words no other is found: right for commands; for other speech "
            "mix it with the model's own by ds2 lm mix, or name words of your own as hot", f"{count:,}",
        )  # fmt: skip


def beam_config(chosen: Mapping[str, Any] | None, options: DecoderOptions, closed: bool) -> BeamConfig:
    """The bundle's search configuration, overridden by the options."""
    default = {"beam_width": CLOSED_BEAM_WIDTH if closed else BeamConfig.beam_width, "closed": closed}
    config = from_dict(BeamConfig, {**default, **(chosen or {})}, "the bundle's decoder")
    asked: dict[str, Any] = {
        "beam_width": options.beam,
        "lm_weight": options.lm_weight,
        "word_bonus": options.word_bonus,
    }
    return dataclasses.replace(config, **{key: value for key, value in asked.items() if value is not None})


def make_beam_decoder(
    tokenizer: Tokenizer,
    config: BeamConfig,
    lm: NGram | None,
    vocabulary: list[str] | None = None,
    boosts: Mapping[str, float] | None = None,
) -> BeamDecoder:
    """A beam search over a language model of words, or of tokens such as Chinese characters, or over a vocabulary.

    Raises:
        ParameterError: the alphabet cannot spell a hot word, hot words come with a language model over tokens, or a
                language model has no word that the alphabet can spell.
    """
    boosts = boosts or {}
    if lm is not None and is_over_tokens(lm, tokenizer):
        if boosts:
            raise ParameterError("hot", "cannot be combined with a language model over tokens, which knows no words")
        config = dataclasses.replace(config, nbest=CONFIDENCE_HYPOTHESES, closed=False)
        return BeamDecoder(config, None, lm, token_numbers(lm, tokenizer))
    for word in words_of(boosts):
        if unknown := tokenizer.unknown(word):
            letters = ", ".join(map(repr, sorted(unknown)))
            raise ParameterError("hot", f"{word}: the model cannot spell {letters}")
    listed = vocabulary or (spellable(lm.words, tokenizer) if lm is not None else [])
    if lm is not None and not listed:
        raise ParameterError(
            "lm", f"the model has no letters for its words, such as {lm.words[-1]!r}; lower-case its text"
        )
    words = list(dict.fromkeys([*listed, *words_of(boosts)]))
    if not words:
        return BeamDecoder(config)
    if " " not in tokenizer.index:
        raise InputError("the model's tokens lack the space, which a search for words needs; train it again")
    [space] = tokenizer.encode(" ")
    lexicon = lexicon_with_hot(Lexicon(map(tokenizer.encode, words), space), tokenizer, boosts)
    config = dataclasses.replace(config, nbest=CONFIDENCE_HYPOTHESES if lm is not None else config.nbest)
    numbers = np.array([lm.index.get(word, 0) for word in words], np.int32) if lm is not None else None
    return BeamDecoder(config, lexicon, lm, numbers)


def lexicon_with_hot(lexicon: Lexicon, tokenizer: Tokenizer, boosts: Mapping[str, float]) -> Lexicon:
    """The lexicon with nats for words, and for each word of phrases."""
    numbers = {word: lexicon.number(tokenizer.encode(word)) for word in words_of({**lexicon.phrases, **boosts})}
    return lexicon.with_hot(boosts, {word: [number] for word, number in numbers.items() if number != NO_WORD})


def spellable(words: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    """The words that the alphabet can spell."""
    beyond = tokenizer.unknown("".join(set().union(*words)))
    return [word for word in words if beyond.isdisjoint(word)]


def search_phones(
    tokenizer: Tokenizer,
    config: BeamConfig,
    lm: NGram,
    pronunciations: Pronunciations,
    boosts: Mapping[str, float] | None = None,
    outputs: int | None = None,
) -> PronouncingDecoder:
    """A search by phones for the words that have pronunciations; `outputs` as in `PronouncingDecoder`."""
    config = dataclasses.replace(
        config, nbest=CONFIDENCE_HYPOTHESES, closed=True, cumulative_probability=1.0, max_symbols=PHONE_SYMBOLS
    )
    return PronouncingDecoder(config, pronunciations, lm, tokenizer.index, boosts, outputs)


def is_over_tokens(lm: NGram, tokenizer: Tokenizer) -> bool:
    """Whether all words of the language model are single tokens, or characters that the tokenizer lacks."""
    return all(word in tokenizer.index or len(word) == 1 for word in lm.words if word not in MODEL_MARKS)


def token_numbers(lm: NGram, tokenizer: Tokenizer) -> np.ndarray:
    """(V,) the language model's number for each token; -1 for the space, which such models leave out."""
    absent = dict.fromkeys(tokenizer.tokens, 0) | {" ": -1}
    return np.array([lm.index.get(token, absent[token]) for token in tokenizer.tokens], np.int32)
