"""Recombination: of the prefixes that every continuation extends alike, only the most probable one stays in the beam.

    ... to her great | sur        the language model remembers the last words only, and the lexicon the beginning of
    ... too her great | sur       the word, so each continuation gives these two the same

Without it the variants of early words fill the beam of a long utterance. lattice.py keeps what lost.
"""

import numpy as np

from ds2.decoder.prefixes import NONE
from ds2.utils.jit import inlined

MULTIPLIER = 6364136223846793005  # Knuth's, modulo 2 ** 64


@inlined
def recombine(new, least, beam, scratch):  # type: ignore[no-untyped-def]
    """Makes the scores of the worse ones among prefixes with the same state of the language model, node of the lexicon
    and last label negative. A hash table holds the best of each kind so far; of equal ones the first stays. `losers`
    chains the others to it."""
    count, scores, table, losers = beam.counters[0].entries, scratch.scores, scratch.table, scratch.losers
    stamp, mask = beam.counters[0].frame + 1, np.uint64(len(table) - 1)
    # Each prefix seeks its kind in the table; the slots of earlier frames have another stamp and count as free.
    for number in range(count + new):
        losers[number] = NONE
        if scores[number] <= 0.0 or scores[number] < least:
            continue
        lm, node, label = _continues(number, count, beam, scratch)
        place = _mixed(lm, node, label) & mask
        while table[place, 0] == stamp and not _continues_as(table[place, 1], lm, node, label, count, beam, scratch):
            place = (place + np.uint64(1)) & mask
        # The first of its kind takes the slot, a better one takes it over. The sign of the score says who has lost.
        if table[place, 0] != stamp:
            table[place, 0], table[place, 1] = stamp, number
            continue
        best = table[place, 1]
        if scores[number] > scores[best]:
            losers[number], table[place, 1] = best, number
            scores[best] = -scores[best]
        else:
            losers[number], losers[best] = losers[best], number
            scores[number] = -scores[number]


@inlined
def _continues(number, count, beam, scratch):  # type: ignore[no-untyped-def]
    """What the continuations of an entry or a candidate depend on."""
    if number < count:
        entry = beam.entries[number]
        return entry.lm, entry.lexicon, np.int64(beam.nodes[entry.node].symbol)
    candidate = scratch.candidates[number - count]
    return candidate.lm, candidate.lexicon, candidate.label


@inlined
def _continues_as(number, lm, node, label, count, beam, scratch):  # type: ignore[no-untyped-def]
    other_lm, other_node, other_label = _continues(number, count, beam, scratch)
    return other_lm == lm and other_node == node and other_label == label


@inlined
def _mixed(lm, node, label):  # type: ignore[no-untyped-def]
    mixed = (np.uint64(lm) * np.uint64(MULTIPLIER) + np.uint64(node)) * np.uint64(MULTIPLIER) + np.uint64(label)
    return mixed ^ (mixed >> np.uint64(29))
