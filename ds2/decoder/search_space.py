"""What a beam search works with, and the tables that its kernels read of it."""

import math
from typing import NamedTuple

import numpy as np

from ds2.decoder import scoring
from ds2.decoder.config import BeamConfig
from ds2.decoder.hot_phrases import NO_PHRASES
from ds2.decoder.lattice import MOST_ARCS
from ds2.decoder.lexicon import NO_LEXICON, Lexicon, Trie, look_ahead
from ds2.decoder.scoring import SearchTables
from ds2.lm.automaton import EMPTY
from ds2.lm.ngram import NGram

TIDY = 50_000  # nodes, runs or arcs of a stream above which unreachable ones are dropped


class SearchSpace(NamedTuple):
    """What a beam search works with: its arguments, which other decoders take over."""

    config: BeamConfig
    lexicon: Lexicon | None
    lm: NGram | None
    lm_words: np.ndarray | None  # see BeamDecoder
    labels: np.ndarray | None


def make_tables(space: SearchSpace) -> SearchTables:
    """The tables of a search."""
    config, lexicon, lm, lm_words, labels = space
    kind = scoring.NO_LM if lm is None else scoring.TOKENS if lexicon is None else scoring.WORDS
    numbers = np.zeros(0, np.int32) if lm_words is None else np.asarray(lm_words, np.int32)
    costs = config.word_bonus, config.unknown_score, config.unknown_letter_score
    bonus, unknown, unknown_letter = (0.0, 0.0, 0.0) if lm is None else costs
    # Until its context is known a word of the lexicon has its boost and its frequency; a node hopes for the best word.
    trie, ahead, boosts, phrases, most = NO_LEXICON, np.zeros(1), np.zeros(0), NO_PHRASES, max(0.0, bonus)
    if lexicon is not None:
        trie, boosts, phrases = lexicon.trie, lexicon.boosts, lexicon.phrase_tables
        gains = boosts + phrases.gains.max(0)[phrases.columns] if len(phrases.columns) else boosts
        gains = gains if lm is None else gains + config.lm_weight * lm.single_log_probs[numbers]
        ahead = look_ahead(trie, gains)
        most = max(0.0, ahead.max())
    settings = np.zeros(1, scoring.SETTINGS)
    widths = ("beam_width", "max_symbols", "cumulative_probability", "score_threshold", "recombine")
    for name in (*widths, "lm_weight", "closed"):
        settings[name] = getattr(config, name)
    settings["eager"] = config.eager and config.closed
    settings["blank_skip"] = config.blank_skip if config.blank_skip < 1 else math.inf
    settings["lm_kind"], settings["spells"], settings["tidy"] = kind, len(trie.words) > 1, TIDY
    settings["bonus"], settings["unknown"], settings["unknown_letter"] = bonus, unknown, unknown_letter
    settings["arcs"] = min(config.nbest - 1, MOST_ARCS) if config.recombine else 0
    settings["space"] = -1 if lexicon is None else lexicon.space
    gains_at_end = bonus, unknown, boosts.max(initial=0.0), phrases.gains.max()
    most_at_end = sum(max(0.0, gain) for gain in gains_at_end)
    settings["phrases"], settings["most"], settings["most_at_end"] = len(phrases.columns) > 0, most, most_at_end
    copies = np.zeros(0, np.int64) if labels is None else np.asarray(labels, np.int64)
    automaton = EMPTY if lm is None else lm.automaton
    growths = _growths(trie, ahead, settings[0]) if config.closed else np.zeros(0)
    endings = np.exp(most_at_end - ahead)
    return SearchTables(settings, automaton, trie, ahead, growths, endings, boosts, phrases, numbers, copies)


def _growths(trie: Trie, ahead: np.ndarray, settings: np.void) -> np.ndarray:
    """(A,) by what each arc multiplies a probability; at most, where an eager search asks the language model."""
    counts = np.diff(trie.first)
    parents = np.repeat(ahead, counts)
    gains = ahead[trie.children] - parents
    if settings["eager"]:
        ends = counts[trie.children] == 0
        gains[ends] = np.maximum(settings["most"], settings["most_at_end"] - parents)[ends]
    found: np.ndarray = np.exp(gains)
    return found
