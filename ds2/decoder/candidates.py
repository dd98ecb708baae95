"""The candidates of a frame: entries of the beam with one more label, those that are probable enough.

Where the lexicon says what may follow an entry, few of its labels can: they are tried along its arcs, most of which end
at a product of three numbers. Elsewhere the labels are tried by falling probability.
"""

import math

import numpy as np

from ds2.decoder import prefixes, scoring
from ds2.decoder.prefixes import NONE
from ds2.utils.jit import inlined


@inlined
def most_candidates(labels, beam, tables):  # type: ignore[no-untyped-def]
    """Each entry may take each label that is tried and may follow, and a space."""
    most = np.int64(0)
    for i in range(beam.counters[0].entries):
        first, past = scoring.following(beam.entries[i], tables)
        most += min(past - first, labels) + 1
    return most


@inlined
def extend_all(frame, labels, least, beam, scratch, tables):  # type: ignore[no-untyped-def]
    """Extends each entry by one more label. The result is added to the entry that it equals or to the candidates;
    returns the number of candidates."""
    active, chances, stays = scratch.active, scratch.chances, scratch.stays
    space, new = tables.settings[0].space, np.int64(0)
    for i in range(beam.counters[0].entries):
        entry = beam.entries[i]
        last, both = beam.nodes[entry.node].symbol, entry.by_blank + entry.by_label
        # Children in the beam get their part, with the gain that they had when they were new.
        j = stays[i].eldest
        while j != NONE:
            symbol = beam.nodes[beam.entries[j].node].symbol
            active[symbol] = j
            chance = _before_gains(entry, last, symbol, frame, scratch)
            if chance > 0.0:
                change = beam.entries[j].gains - entry.gains
                stays[j].by_label += chance * math.exp(change) if change != 0.0 else chance
                stays[j].parent = i
            j = stays[j].younger
        # All other labels make candidates: those that may follow in the lexicon, where it is closed and they are fewer
        # than those that are tried.
        first, past = scoring.following(entry, tables)
        if past - first <= labels:
            # An index without a sign is not tested for counting from the end.
            for arc in range(np.uint64(first), np.uint64(past)):
                symbol = np.uint64(tables.lexicon.tokens[arc])
                # Most would become too improbable.
                if both * chances[symbol] * tables.growths[arc] >= least and active[symbol] == NONE:
                    new += _along(new, i, np.int64(arc), frame, least, beam, scratch, tables)
        else:
            growth = math.exp(scoring.largest_gain(entry, tables))
            for k in range(labels):
                symbol = scratch.chosen[k]
                # They come by falling probability, so the first that not even the largest gain could save ends this.
                if both * growth * chances[symbol] < least:
                    break
                if active[symbol] == NONE:
                    new += _extend(new, i, symbol, growth, frame, least, beam, scratch, tables)
        # The space is tried in any case, because words would not end without it; where no score of the language model
        # could keep it, the model is not asked.
        if space >= 0 and active[space] == NONE:
            chance = _before_gains(entry, last, space, frame, scratch)
            if not scoring.cannot_end(entry, chance, least, tables):
                new += _add(new, i, space, chance, least, beam, scratch, tables)
        # Only this entry's children were active.
        j = stays[i].eldest
        while j != NONE:
            active[beam.nodes[beam.entries[j].node].symbol] = NONE
            j = stays[j].younger
    return new


@inlined
def _before_gains(entry, last, symbol, frame, scratch):  # type: ignore[no-untyped-def]
    """The probability of an entry with one more label, without gains; the label `last` again needs a blank."""
    before = entry.by_blank if symbol == last else entry.by_blank + entry.by_label
    return before * scratch.chances[symbol] * prefixes.share(frame, last, symbol)


@inlined
def _extend(new, i, symbol, growth, frame, least, beam, scratch, tables):  # type: ignore[no-untyped-def]
    """Like `_add`, by a label that is not the space; no gain makes more than `growth` of its probability."""
    entry = beam.entries[i]
    chance = _before_gains(entry, beam.nodes[entry.node].symbol, symbol, frame, scratch)
    if chance * growth < least:
        return 0
    return _add(new, i, symbol, chance, least, beam, scratch, tables)


@inlined
def _along(new, i, arc, frame, least, beam, scratch, tables):  # type: ignore[no-untyped-def]
    """Like `_add`, along an arc of the lexicon."""
    entry, symbol, node = beam.entries[i], np.int64(tables.lexicon.tokens[arc]), np.int64(tables.lexicon.children[arc])
    chance = _before_gains(entry, beam.nodes[entry.node].symbol, symbol, frame, scratch)
    if chance <= 0.0:
        return 0
    gain = scoring.gain_within(entry, node, beam.counters[0], tables)
    # Only an eager search gains something else at the end of a word than is known of the arc beforehand.
    chance *= math.exp(gain) if tables.settings[0].eager else tables.growths[arc]
    return _make_candidate(new, i, symbol, chance, gain, entry.lm, node, least, beam, scratch)


@inlined
def _add(new, i, symbol, chance, least, beam, scratch, tables):  # type: ignore[no-untyped-def]
    """Makes entry i with one more label candidate `new`, if allowed and probable enough; returns whether it did."""
    if chance <= 0.0:
        return 0
    allowed, gain, state, node = scoring.extend(beam.entries[i], symbol, beam.counters[0], tables)
    if not allowed:
        return 0
    if gain != 0.0:
        chance *= math.exp(gain)
    return _make_candidate(new, i, symbol, chance, gain, state, node, least, beam, scratch)


@inlined
def _make_candidate(new, i, symbol, chance, gain, state, node, least, beam, scratch):  # type: ignore[no-untyped-def]
    """Makes entry i with one more label candidate `new`, if it is probable enough; returns whether it did."""
    if chance < least or chance <= 0.0:
        return 0
    candidate = scratch.candidates[new]
    candidate.entry, candidate.label, candidate.lm, candidate.lexicon = i, symbol, state, node
    candidate.chance, candidate.gains = chance, beam.entries[i].gains + gain
    return 1
