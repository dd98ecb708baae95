"""The histories that lost when prefixes were recombined, as a lattice that nbest.py reads hypotheses from.

    to her great |              the winner of the three, an entry of the beam
          +------- too her great |      its arcs: the losers, which had 0.4 and 0.1 of its probability
          +------- to hear great |

An arc stands for a prefix that continues like the entry's own: same state of the language model, same node of the
lexicon, same last label. README.md, "Recombination", says what of this is an approximation.

    later entries --> run --> run --> run       a list of arcs belongs to an entry while its last label is the last,
                       |       |                and to the run that follows it from then on
                      arcs    arcs
"""

import math

import numpy as np

from ds2.decoder.prefixes import NONE, runs_before
from ds2.utils.jit import inlined

MOST_ARCS = 8  # of one entry


@inlined
def keep_arcs(number, place, beam, scratch):  # type: ignore[no-untyped-def]
    """The arcs of the entry that candidate or entry `number` becomes: those that it has, and one for each prefix that
    lost to it in this frame."""
    later, count = beam.later[place], beam.counters[0].entries
    # An entry that stays keeps its arcs, as far as its probability is its own and not its parent's.
    if number < count and later.arcs != NONE:
        later.fade += _faded(number, scratch)
        if later.fade == -math.inf:
            later.arcs, later.fade = NONE, 0.0
    if scratch.losers[number] == NONE:
        return
    # If others lost to it in this frame, its list is written anew: first its own arcs, then each loser with that
    # loser's arcs.
    found, gains, total = 0, _gains(number, beam, scratch), scratch.scores[number]
    own = _before_label(number, beam, scratch)
    if number < count:
        found = _collect_arcs(later.arcs, later.fade, 0.0, own, found, beam, scratch)
    loser = scratch.losers[number]
    while loser != NONE:
        score, more = math.log(-scratch.scores[loser] / total), _gains(loser, beam, scratch) - gains
        found = _collect_loser(loser, score, more, own, found, beam, scratch)
        if loser < count:
            entry = beam.entries[loser]
            fade = score + entry.fade + _faded(loser, scratch)
            found = _collect_arcs(entry.arcs, fade, more, own, found, beam, scratch)
        loser = scratch.losers[loser]
    later.arcs, later.fade = _store_arcs(found, beam, scratch), 0.0


@inlined
def _faded(number, scratch):  # type: ignore[no-untyped-def]
    """Log of the share of an entry's probability that it had before this frame: the rest came from its parent, and
    does not belong to its arcs."""
    stay = scratch.stays[number]
    total = stay.by_blank + stay.by_label
    if stay.held == total:
        return 0.0
    return math.log(stay.held / total) if stay.held > 0.0 else -math.inf


@inlined
def _gains(number, beam, scratch):  # type: ignore[no-untyped-def]
    count = beam.counters[0].entries
    return beam.entries[number].gains if number < count else scratch.candidates[number - count].gains


@inlined
def _before_label(number, beam, scratch):  # type: ignore[no-untyped-def]
    """The node of an entry or a candidate without its last label."""
    count = beam.counters[0].entries
    if number < count:
        return np.int64(beam.nodes[beam.entries[number].node].parent)
    return beam.entries[scratch.candidates[number - count].entry].node


@inlined
def _collect_loser(loser, score, gains, own, found, beam, scratch):  # type: ignore[no-untyped-def]
    """Adds an arc to a loser to the `found` ones."""
    count, node = beam.counters[0].entries, _before_label(loser, beam, scratch)
    if loser >= count:
        candidate = scratch.candidates[loser - count]
        before = beam.entries[candidate.entry]
        run = runs_before(candidate.entry, candidate.label, beam, scratch.stays)
        return _collect(node, run, before.arcs, before.fade, score, gains, own, found, scratch)
    entry = beam.entries[loser]
    # Where its best alignment ends in the blank, the last label has a run, which knows what was before it.
    if entry.best_blank >= entry.best_label:
        run = beam.runs[entry.runs_blank]
        return _collect(node, run.before, run.arcs, run.fade, score, gains, own, found, scratch)
    return _collect(node, entry.runs_label, entry.arcs_before, entry.fade_before, score, gains, own, found, scratch)


@inlined
def _collect_arcs(first, fade, gains, own, found, beam, scratch):  # type: ignore[no-untyped-def]
    """Adds the arcs of a list to the `found` ones."""
    number = first
    while number != NONE:
        arc = beam.arcs[number]
        score, more = arc.score + fade, arc.gains + gains
        found = _collect(arc.node, arc.run, arc.arcs, arc.fade, score, more, own, found, scratch)
        number = arc.next
    return found


@inlined
def _collect(node, run, arcs, fade, score, gains, own, found, scratch):  # type: ignore[no-untyped-def]
    """Adds an arc to the `found` ones, or its probability to that of the arc to the same node; of too many the worst
    is left out. Returns their number."""
    if node == own or score == -math.inf:
        return found
    # Two arcs to one node are the same history: the better one stands for both, with the sum of their probabilities.
    place, worst = found, 0
    for other in range(found):
        if scratch.arcs[other].node == node:
            place = other
            break
        if scratch.arcs[other].score < scratch.arcs[worst].score:
            worst = other
    if place < found:
        arc = scratch.arcs[place]
        high, low = max(arc.score, score), min(arc.score, score)
        both = high + math.log1p(math.exp(low - high))
        if arc.score >= score:
            arc.score = both
            return found
        score = both
    elif found == len(scratch.arcs):
        if scratch.arcs[worst].score >= score:
            return found
        place = worst
    else:
        found += 1
    arc = scratch.arcs[place]
    arc.node, arc.run, arc.arcs, arc.fade, arc.score, arc.gains = node, run, arcs, fade, score, gains
    return found


@inlined
def _store_arcs(found, beam, scratch):  # type: ignore[no-untyped-def]
    """Appends the arcs as a list; returns the first. None is better than the winner, whose history is the best one."""
    first = beam.counters[0].arcs
    for place in range(found):
        arc = beam.arcs[first + place]
        beam.arcs[first + place] = scratch.arcs[place]
        arc.score, arc.next = min(0.0, scratch.arcs[place].score), first + place + 1 if place + 1 < found else NONE
    beam.counters[0].arcs += found
    return first if found else NONE
