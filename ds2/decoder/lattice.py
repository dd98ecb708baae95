"""The histories that lost when prefixes were recombined, and the best hypotheses with them.

    to her great |              the winner of the three, an entry of the beam
          +------- too her great |      its arcs: the losers, which had 0.4 and 0.1 of its probability
          +------- to hear great |

An arc stands for a prefix that continues like the entry's own: same state of the language model, same node of the
lexicon, same last label. A hypothesis of the n-best may follow an arc wherever its best alignment leaves a prefix that
has any, for the log of the relative probability at that time. It then goes on in the loser's history, which may have
arcs itself. README.md, "Recombination", says what of this is an approximation.

    later entries --> run --> run --> run       a list of arcs belongs to an entry while its last label is the last,
                       |       |                and to the run that follows it from then on
                      arcs    arcs
"""

import heapq
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.prefixes import NONE, Beam, runs_before
from ds2.utils.jit import inlined, without_references

MOST_ARCS = 8  # of one entry


@inlined
def keep_arcs(number, place, beam, scratch):  # type: ignore[no-untyped-def]
    """The arcs of the entry that candidate or entry `number` becomes: those that it has, and one for each prefix that
    lost to it in this frame."""
    later, count = beam.later[place], beam.counters[0].entries
    if number < count and later.arcs != NONE:
        later.fade += _faded(number, scratch)
        if later.fade == -math.inf:
            later.arcs, later.fade = NONE, 0.0
    if scratch.losers[number] == NONE:
        return
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
    later.arcs, later.fade = _store(found, beam, scratch), 0.0


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
        found = _collect(
            arc.node, arc.run, arc.arcs, arc.fade, arc.score + fade, arc.gains + gains, own, found, scratch
        )
        number = arc.next
    return found


@inlined
def _collect(node, run, arcs, fade, score, gains, own, found, scratch):  # type: ignore[no-untyped-def]
    """Adds an arc to the `found` ones, or its probability to that of the arc to the same node; of too many the worst
    is left out. Returns their number."""
    if node == own or score == -math.inf:
        return found
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
def _store(found, beam, scratch):  # type: ignore[no-untyped-def]
    """Appends the arcs as a list; returns the first. None is better than the winner, whose history is the best one."""
    first = beam.counters[0].arcs
    for place in range(found):
        arc = beam.arcs[first + place]
        beam.arcs[first + place] = scratch.arcs[place]
        arc.score, arc.next = min(0.0, scratch.arcs[place].score), first + place + 1 if place + 1 < found else NONE
    beam.counters[0].arcs += found
    return first if found else NONE


class Waiting(NamedTuple):
    """A hypothesis that has not been read yet: the best one of an entry, or one that leaves another one by an arc."""

    cost: float  # nats, the negative of its score
    number: int  # the first of equal ones comes first
    gains: float
    entry: int
    left: "Read | None" = None
    way: int = NONE  # by which it leaves that one


class Read(NamedTuple):
    """A hypothesis, and the ways to leave it by an arc from what no other has read, best first."""

    hypothesis: Hypothesis
    cost: float
    gains: float
    places: np.ndarray  # of the label that follows the arc
    arcs: np.ndarray
    costs: np.ndarray  # nats


def hypotheses(beam: Beam, scores: np.ndarray, gains: np.ndarray) -> Iterator[Hypothesis]:
    """All hypotheses of a beam, each string of labels once, best first; they are read from the lattice one by one.

    Args:
        scores, gains: (N,) of the entries, nats.
    """
    order = [place for place in np.argsort(-scores, kind="stable").tolist() if scores[place] > -math.inf]
    waiting = [Waiting(-float(scores[e]), number, float(gains[e]), e) for number, e in enumerate(order)]
    found, numbers = set(), itertools.count(len(order))
    while waiting:
        best = heapq.heappop(waiting)
        read = _read(beam, best)
        if read.hypothesis.tokens not in found:
            found.add(read.hypothesis.tokens)
            yield read.hypothesis
        # Next come the best way to leave it, and the next best one to leave what it has left.
        for left, way in ((read, 0), (best.left, best.way + 1)):
            if left is not None and way < len(left.arcs):
                more = left.gains + float(beam.arcs["gains"][left.arcs[way]])
                cost = left.cost + float(left.costs[way])
                heapq.heappush(waiting, Waiting(cost, next(numbers), more, best.entry, left, way))


def _read(beam: Beam, best: Waiting) -> Read:
    left, way = best.left, best.way
    *columns, places, arcs, costs = _path(beam, best.entry, NONE if left is None else left.arcs[way])
    order = np.argsort(costs, kind="stable")
    after = Hypothesis() if left is None else left.hypothesis
    hypothesis = _joined([column.tolist() for column in columns], best, after, 0 if left is None else left.places[way])
    return Read(hypothesis, best.cost, best.gains, places[order], arcs[order], costs[order])


def _joined(columns: list[list[Any]], best: Waiting, other: Hypothesis, place: int) -> Hypothesis:
    """The labels of a path, their starts, ends and peaks, before those of another hypothesis from `place` on."""
    labels, starts, ends, peaks = columns
    length = len(labels)
    labels += other.tokens[place:]
    starts += other.starts[place:]
    ends += other.ends[place:]
    confidences = *map(math.exp, peaks), *other.confidences[place:]
    # The label after an arc may have begun later in the loser than in the winner.
    if 0 < length < len(starts):
        starts[length] = max(starts[length], ends[length - 1])
        ends[length] = max(ends[length], starts[length] + 1)
    return Hypothesis(tuple(labels), tuple(starts), tuple(ends), confidences, -best.cost, best.gains)


class Path(NamedTuple):
    """The columns of a path with L labels, and of the W arcs that lead away from it."""

    symbols: np.ndarray  # (L,)
    starts: np.ndarray  # (L,) frames
    ends: np.ndarray  # (L,)
    peaks: np.ndarray  # (L,) log-probabilities
    places: np.ndarray  # (W,) of the label that follows each arc
    arcs: np.ndarray  # (W,)
    costs: np.ndarray  # (W,) nats


def _path(beam: Beam, place: int, number: int) -> Path:
    """The path of the entry at `place`, or of what an arc leads to."""
    labels, ways = _sizes(beam, place, number)
    symbols, starts, ends = np.empty((3, labels), np.int64)
    places, arcs = np.empty((2, ways), np.int64)
    path = Path(symbols, starts, ends, np.empty(labels), places, arcs, np.empty(ways))
    _fill(beam, place, number, path)
    return path


@inlined
def _begin(beam, place, number):  # type: ignore[no-untyped-def]
    """Where a path begins: node, run, arcs, their fade, and whether the last label's run is not closed yet."""
    entry = beam.entries[place]
    if number != NONE:
        arc = beam.arcs[number]
        return arc.node, arc.run, arc.arcs, arc.fade, False
    open_ = entry.best_blank < entry.best_label
    return entry.node, entry.runs_label if open_ else entry.runs_blank, entry.arcs, entry.fade, open_


@without_references
def _fill(beam, place, number, path):  # type: ignore[no-untyped-def]
    symbols, starts, ends, peaks, places, found, costs = path
    entry = beam.entries[place]
    node, run, arcs, fade, open_ = _begin(beam, place, number)
    ways = 0
    for label in range(len(symbols) - 1, -1, -1):
        while arcs != NONE:
            places[ways], found[ways], costs[ways] = label, arcs, -(beam.arcs[arcs].score + fade)
            arcs = beam.arcs[arcs].next
            ways += 1
        symbols[label] = beam.nodes[node].symbol
        node = np.int64(beam.nodes[node].parent)
        if open_:
            starts[label], ends[label], peaks[label] = entry.start, entry.end, entry.peak
            arcs, fade, open_ = entry.arcs_before, entry.fade_before, False
        else:
            one = beam.runs[run]
            starts[label], ends[label], peaks[label] = one.start, one.end, one.peak
            run, arcs, fade = one.before, one.arcs, one.fade


@without_references
def _sizes(beam, place, number):  # type: ignore[no-untyped-def]
    """The number of labels of a path, and of the arcs that lead away from it."""
    node, run, arcs, _, open_ = _begin(beam, place, number)
    arcs_before, labels, ways = beam.entries[place].arcs_before, 0, 0
    while node != 0:
        while arcs != NONE:
            arcs = beam.arcs[arcs].next
            ways += 1
        labels += 1
        node = np.int64(beam.nodes[node].parent)
        if open_:
            arcs, open_ = arcs_before, False
        else:
            arcs, run = beam.runs[run].arcs, beam.runs[run].before
    return labels, ways
