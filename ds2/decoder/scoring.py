"""The score that the language model, the lexicon and bonuses give to a prefix with one more label.

A word of the lexicon counts before it is complete: each node of the lexicon gives in advance the gain of the best
single word at or below it; the true score replaces this at the end of the word. An eager search replaces it where the
word is known, with the last label. README.md, "Scoring", has the formulas.
"""

import math
from typing import NamedTuple

import numpy as np

from ds2.decoder.hot_phrases import PhraseTables
from ds2.decoder.lexicon import Trie
from ds2.decoder.prefixes import NONE, Beam
from ds2.lm.automaton import Automaton, advance, find_arc
from ds2.lm.packed import Packed
from ds2.utils.jit import inlined, without_references

UNKNOWN = 0  # number of <unk> in every language model
OUTSIDE = -1  # node of a word that is not in the lexicon
NO_LM, WORDS, TOKENS = 0, 1, 2  # units of the language model
LM_BITS = 40  # of a state that are the language model's; the phrases' state is above them
LM_MASK = (1 << LM_BITS) - 1


SETTINGS = np.dtype([  # gains are in nats
    ("beam_width", np.int64),
    ("max_symbols", np.int64),
    ("cumulative_probability", np.float64),
    ("score_threshold", np.float64),
    ("recombine", np.int64),  # 1: of prefixes that continue alike only the best one stays
    ("arcs", np.int64),  # the most that are kept of an entry, to those that lost to it
    ("blank_skip", np.float64),  # probability of the blank; inf: no frame is skipped
    ("lm_kind", np.int64),  # NO_LM, WORDS or TOKENS
    ("lm_weight", np.float64),
    ("bonus", np.float64),  # of a word, or of a token where the language model is over tokens
    ("space", np.int64),  # -1: none
    ("spells", np.int64),  # 1: a lexicon guides the search
    ("closed", np.int64),  # 1: only the lexicon's words are found
    ("eager", np.int64),  # 1: a word that no longer one continues counts with its last label
    ("phrases", np.int64),  # 1: there are phrases to prefer
    ("unknown", np.float64),  # gain of a word outside the lexicon
    ("unknown_letter", np.float64),
    ("tidy", np.int64),  # nodes, runs or arcs above which unreachable ones are dropped
    ("most", np.float64),  # the largest gain of one label within the lexicon, or of a token
    ("most_at_end", np.float64),  # the largest gain at the end of a word beyond what was given in advance
])  # fmt: skip


class SearchTables(NamedTuple):
    """The data that a decoder searches with."""

    settings: np.ndarray  # (1,) of SETTINGS
    lm: Automaton | Packed
    lexicon: Trie
    ahead: np.ndarray  # (N,) gain of the best single word at or below each node of the lexicon; 0 at the root
    growths: np.ndarray  # (A,) by what each arc of the lexicon multiplies a probability, at most; (0,): not closed
    endings: np.ndarray  # (N,) by what a space multiplies the probability of an entry at each node, at most
    boosts: np.ndarray  # (words,) of the lexicon
    phrases: PhraseTables
    # The language model's number of each word of the lexicon or, without one, of each token; -1: none.
    numbers: np.ndarray
    labels: np.ndarray  # (S,) the label of biphones that each symbol stands for; (0,) where there are none


@inlined
def extend(entry, symbol, counters, tables):  # type: ignore[no-untyped-def]
    """(allowed, gain, state of the language model, node of the lexicon) of an entry with one more label."""
    settings = tables.settings[0]
    # A language model over tokens counts every token as it comes.
    if settings.lm_kind == TOKENS:
        if tables.numbers[symbol] == NONE:
            return True, 0.0, entry.lm, entry.lexicon
        log_prob, state = advance(tables.lm, entry.lm, np.int64(tables.numbers[symbol]))
        counters.lookups += 1
        return True, settings.lm_weight * log_prob + settings.bonus, state, entry.lexicon
    if not settings.spells:
        return True, 0.0, entry.lm, entry.lexicon
    # A space ends the word, whose true score is known now.
    if symbol == settings.space:
        gain = end_word(entry, counters, tables)
        return gain > -math.inf, gain, entry.lm_after, 0
    # Within the lexicon the hope for the best word changes with every letter.
    node = _step(tables.lexicon, entry.lexicon, symbol)
    if node != OUTSIDE:
        return True, gain_within(entry, node, counters, tables), entry.lm, node
    # Outside, each letter costs, and the first one also ends the hope for a word that is known.
    gain = settings.unknown_letter
    if entry.lexicon != OUTSIDE:
        gain += settings.unknown - tables.ahead[entry.lexicon]
    return settings.closed == 0, gain, entry.lm, node


@inlined
def gain_within(entry, node, counters, tables):  # type: ignore[no-untyped-def]
    """Gain of an entry within the lexicon that moves on to a node."""
    if _is_known(node, tables):
        gain, _ = _whole_word(entry.lm, node, counters, tables)
        return gain - tables.ahead[entry.lexicon]
    return tables.ahead[node] - tables.ahead[entry.lexicon]


@inlined
def following(entry, tables):  # type: ignore[no-untyped-def]
    """The first arc, and that after the last one, of the labels that may follow an entry within a word; more than
    there can be where the lexicon does not say which."""
    settings, node = tables.settings[0], entry.lexicon
    if settings.lm_kind == TOKENS or not settings.spells or not settings.closed:
        return np.int64(0), np.int64(settings.max_symbols + 1)
    return np.int64(tables.lexicon.first[node]), np.int64(tables.lexicon.first[node + 1])


@inlined
def largest_gain(entry, tables):  # type: ignore[no-untyped-def]
    """No label but the space can give an entry more than this."""
    settings = tables.settings[0]
    # A word that leaves the lexicon gives back what it got in advance, and that may have been a cost.
    if settings.eager:
        return max(settings.most, settings.most_at_end - tables.ahead[entry.lexicon])
    if settings.lm_kind == TOKENS or not settings.spells or settings.closed:
        return settings.most
    if entry.lexicon == OUTSIDE:
        return settings.unknown_letter
    return max(settings.most, settings.unknown_letter + settings.unknown - tables.ahead[entry.lexicon])


@inlined
def end_word(entry, counters, tables):  # type: ignore[no-untyped-def]
    """Gain if an entry's word ends here, -inf where it may not; computed once for each prefix."""
    if not math.isnan(entry.gain_after):
        return entry.gain_after
    settings, node = tables.settings[0], entry.lexicon
    word = tables.lexicon.words[node] if node != OUTSIDE else NONE
    gain, state = 0.0, entry.lm
    if word == NONE and settings.closed:
        gain = -math.inf
    # Two spaces in a row end no word.
    elif node != 0 or settings.closed:
        gain, state = _whole_word(entry.lm, node, counters, tables)
        # The true score takes the place of what was given in advance, if that was not the true one.
        if _is_known(node, tables):
            gain = 0.0
        elif node != OUTSIDE:
            gain -= tables.ahead[node]
    entry.gain_after, entry.lm_after = gain, state
    return gain


@inlined
def _whole_word(lm, node, counters, tables):  # type: ignore[no-untyped-def]
    """Gain of the word that ends at a node in its context, and the state of the language model after it."""
    settings, gain, state = tables.settings[0], 0.0, lm
    word = tables.lexicon.words[node] if node != OUTSIDE else NONE
    # A word that the language model lacks is <unk>.
    if settings.lm_kind == WORDS:
        number = tables.numbers[word] if word != NONE else UNKNOWN
        log_prob, state = advance(tables.lm, lm & LM_MASK, number)
        counters.lookups += 1
        gain = settings.lm_weight * log_prob
    if settings.phrases:
        column = tables.phrases.columns[word] if word != NONE else 0
        gain += tables.phrases.gains[lm >> LM_BITS, column]
        after = np.int64(tables.phrases.next[lm >> LM_BITS, column])
        state = state & LM_MASK | after << LM_BITS
    gain += settings.bonus
    # A word that left the lexicon has paid for being unknown already.
    if word != NONE:
        gain += tables.boosts[word]
    elif node != OUTSIDE:
        gain += settings.unknown
    return gain, state


@inlined
def _is_known(node, tables):  # type: ignore[no-untyped-def]
    """Whether the word at a node is known with its last label: no longer one continues it."""
    if not tables.settings[0].eager or node <= 0:
        return False
    return tables.lexicon.first[node] == tables.lexicon.first[node + 1]


@inlined
def cannot_end(entry, chance, least, tables):  # type: ignore[no-untyped-def]
    """Whether a space after an entry falls below `least` for any language model score; saves the query."""
    if not math.isnan(entry.gain_after):
        return False
    if _is_known(entry.lexicon, tables):
        return chance < least
    if entry.lexicon == OUTSIDE:
        return chance * math.exp(tables.settings[0].most_at_end) < least
    return chance * tables.endings[entry.lexicon] < least


@inlined
def _step(lexicon, node, token):  # type: ignore[no-untyped-def]
    if node == OUTSIDE:
        return OUTSIDE
    arc = find_arc(lexicon.tokens, lexicon.first[node], lexicon.first[node + 1], token)
    return lexicon.children[arc] if arc >= 0 else OUTSIDE


def final_gains(beam: Beam, tables: SearchTables, sentence_end: int) -> np.ndarray:
    """(N,) gain of each entry if the utterance ends here: its last word, and </s>; -inf where no word may end."""
    gains = np.zeros(int(beam.counters["entries"][0]))
    _end_all(gains, beam, tables, sentence_end)
    return gains


@without_references
def _end_all(gains, beam, tables, sentence_end):  # type: ignore[no-untyped-def]
    counters, settings = beam.counters[0], tables.settings[0]
    for i in range(counters.entries):
        entry = beam.entries[i]
        # The last word ends as it would before a space, then the sentence does.
        after = entry.lm
        if entry.lexicon != 0 and settings.space >= 0 and settings.lm_kind != TOKENS:
            gains[i] = end_word(entry, counters, tables)
            after = entry.lm_after
        if settings.lm_kind != NO_LM and sentence_end >= 0 and gains[i] > -math.inf:
            log_prob, _ = advance(tables.lm, after & LM_MASK, sentence_end)
            counters.lookups += 1
            gains[i] += settings.lm_weight * log_prob
        # A phrase that is not complete gives back what it has gained.
        if settings.phrases:
            gains[i] -= tables.phrases.held[after >> LM_BITS]
