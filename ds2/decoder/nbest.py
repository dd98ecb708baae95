"""The best hypotheses of a beam, read one by one from the lattice of what recombination took out of it.

A hypothesis may follow an arc wherever its best alignment leaves a prefix that has any, for the log of the relative
probability at that time. It then goes on in the loser's history, which may have arcs itself.
"""

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.prefixes import NONE, Beam
from ds2.utils.jit import inlined, plain, without_references


class Reading(NamedTuple):
    """What is read of a beam: of each text the best hypothesis, from so many strings of labels."""

    text_of: Callable[[tuple[int, ...]], Hashable] = lambda labels: labels
    most: float = math.inf


EVERY = Reading()  # string of labels


class Pending(NamedTuple):
    """A hypothesis that has not been read yet: the best one of an entry, or one that leaves another one by an arc."""

    cost: float  # nats, the negative of its score
    number: int  # the first of equal ones comes first
    gains: float
    entry: int
    left: "Read | None" = None
    way: int = NONE  # by which it leaves that one


@dataclass(frozen=True)
class Read:
    """The labels of a hypothesis, and the ways to leave it by an arc from what no other has read, best first."""

    cost: float
    gains: float
    path: "Path"  # before `left`
    left: "Read | None"  # which the hypothesis goes on in, from its label `place` on
    place: int
    tokens: tuple[int, ...]
    places: np.ndarray  # of the label that follows the arc
    arcs: np.ndarray
    costs: np.ndarray  # nats

    @functools.cached_property
    def hypothesis(self) -> Hypothesis:
        """The whole of it; most are not asked for, as others have their text."""
        after = Hypothesis() if self.left is None else self.left.hypothesis
        return _joined(self, after)


def hypotheses(beam: Beam, scores: np.ndarray, gains: np.ndarray, reading: Reading = EVERY) -> Iterator[Hypothesis]:
    """The hypotheses of a beam, best first; they are read from the lattice one by one.

    Args:
        scores, gains: (N,) of the entries, nats.
    """
    order = [place for place in np.argsort(-scores, kind="stable").tolist() if scores[place] > -math.inf]
    waiting = [Pending(-float(scores[e]), number, float(gains[e]), e) for number, e in enumerate(order)]
    known, texts, numbers = set[tuple[int, ...]](), set[Hashable](), itertools.count(len(order))
    while waiting and len(known) < reading.most:
        best = heapq.heappop(waiting)
        read = _read(beam, best)
        if read.tokens not in known:
            known.add(read.tokens)
            if (text := reading.text_of(read.tokens)) not in texts:
                texts.add(text)
                yield read.hypothesis
        # Next come the best way to leave it, and the next best one to leave what it has left.
        for left, way in ((read, 0), (best.left, best.way + 1)):
            if left is not None and way < len(left.arcs):
                more = left.gains + float(beam.arcs["gains"][left.arcs[way]])
                cost = left.cost + float(left.costs[way])
                heapq.heappush(waiting, Pending(cost, next(numbers), more, best.entry, left, way))


def _read(beam: Beam, best: Pending) -> Read:
    left, way = best.left, best.way
    path = _path(beam, best.entry, NONE if left is None else left.arcs[way])
    place = 0 if left is None else int(left.places[way])
    tokens = (*path.symbols.tolist(), *(() if left is None else left.tokens[place:]))
    order = np.argsort(path.costs, kind="stable")
    ways = path.places[order], path.arcs[order], path.costs[order]
    return Read(best.cost, best.gains, path, left, place, tokens, *ways)


def _joined(read: Read, other: Hypothesis) -> Hypothesis:
    """The labels of a path, their starts, ends and peaks, before those of the hypothesis that it goes on in."""
    path, place = read.path, read.place
    length = len(path.symbols)
    starts = [*path.starts.tolist(), *other.starts[place:]]
    ends = [*path.ends.tolist(), *other.ends[place:]]
    confidences = *map(math.exp, path.peaks.tolist()), *other.confidences[place:]
    # The label after an arc may have begun later in the loser than in the winner, and so may those that follow it.
    for later in range(max(length, 1), len(starts)):
        if starts[later] >= ends[later - 1]:
            break
        starts[later] = ends[later - 1]
        ends[later] = max(ends[later], starts[later] + 1)
    return Hypothesis(read.tokens, tuple(starts), tuple(ends), confidences, -read.cost, read.gains)


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
    arrays = plain(beam)
    labels, ways = _path_sizes(arrays, place, number)
    symbols, starts, ends = np.empty((3, labels), np.int64)
    places, arcs = np.empty((2, ways), np.int64)
    path = symbols, starts, ends, np.empty(labels), places, arcs, np.empty(ways)
    _fill_path(arrays, place, number, path)
    return Path(*path)


@inlined
def _begin(beam, place, number):  # type: ignore[no-untyped-def]
    """Where a path begins: node, run, arcs, their fade, and whether the last label's run is not closed yet."""
    entry = beam.entries[place]
    if number != NONE:
        arc = beam.arcs[number]
        return arc.node, arc.run, arc.arcs, arc.fade, False
    # The last label is open, without a run, while the best alignment ends in it.
    open_ = entry.best_blank < entry.best_label
    return entry.node, entry.runs_label if open_ else entry.runs_blank, entry.arcs, entry.fade, open_


@without_references
def _fill_path(arrays, place, number, path):  # type: ignore[no-untyped-def]
    beam = Beam(*arrays)
    symbols, starts, ends, peaks, places, found, costs = path
    entry = beam.entries[place]
    node, run, arcs, fade, open_ = _begin(beam, place, number)
    ways = 0
    # Backwards: the arcs that lead away before each label, then the label with its times.
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
def _path_sizes(arrays, place, number):  # type: ignore[no-untyped-def]
    """The number of labels of a path, and of the arcs that lead away from it."""
    beam = Beam(*arrays)
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
