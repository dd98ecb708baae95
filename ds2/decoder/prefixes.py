"""The prefixes of a beam search: a tree, the entries of the beam, and the best alignment of each entry.

    tree   root -- a -- b      nodes: one for each prefix, which is read from the node up to the root
                    \\
                     \\-- c      entries: the nodes that are in the beam, with all that is known of them

    runs   (a, frames 3-4) <-- (b, frames 6-6) <-- ...      chains: the times of an entry's labels

An entry has two best alignments, one that ends in the blank and one that ends in the last label. The runs of their
labels are chained backwards; the run of the last label itself is part of the entry until it ends.

Where prefixes are recombined, an entry also has arcs, to the histories that lost to its own: lattice.py.
"""

import math
from typing import NamedTuple

import numpy as np

from ds2.text import BLANK
from ds2.utils.jit import compiled, inlined

ROOT = -1  # symbol of the empty prefix
NONE = -1

ENTRY = np.dtype([
    ("node", np.int64),
    ("lm", np.int64),  # state of the language model
    ("lexicon", np.int64),  # node of the lexicon
    ("runs_blank", np.int64),  # last run of the best alignment that ends in the blank
    ("runs_label", np.int64),  # last run before the last label's own, of the best alignment that ends in it
    ("start", np.int64),  # frames of the last label's run: first,
    ("end", np.int64),  # and one beyond the last
    ("lm_after", np.int64),  # state of the language model if the word ends here
    ("arcs", np.int64),  # the first of its arcs
    ("arcs_before", np.int64),  # that of the prefix without the last label, when the last label's run began
    ("by_blank", np.float64),  # probability of all alignments that end in the blank, gains included
    ("by_label", np.float64),  # and of all that end in the last label
    ("gains", np.float64),  # log of what the language model, bonuses and boosts give
    ("best_blank", np.float64),  # log-probability of the best alignment that ends in the blank
    ("best_label", np.float64),
    ("peak", np.float64),  # highest log-probability of the last label in its run
    ("gain_after", np.float64),  # gain if the word ends here; NaN until it is computed
    ("fade", np.float64),  # to be added to the scores of its arcs
    ("fade_before", np.float64),  # and to those of `arcs_before`
])  # fmt: skip
NODE = np.dtype([
    ("parent", np.int32),
    ("symbol", np.int32),
    ("child", np.int32),  # the newest
    ("sibling", np.int32),  # the next older
    ("entry", np.int32),  # its number in the beam,
    ("frame", np.int32),  # in this frame
])  # fmt: skip
RUN = np.dtype([
    ("before", np.int64),
    ("start", np.int64),
    ("end", np.int64),
    ("peak", np.float64),
    ("arcs", np.int64),  # `arcs_before` and `fade_before` of the entry whose label it was
    ("fade", np.float64),
])  # fmt: skip
ARC = np.dtype([  # to the history of another prefix with the same last label
    ("node", np.int64),  # that prefix without the last label,
    ("run", np.int64),  # the last run of its best alignment,
    ("arcs", np.int64),  # and its own arcs at that time
    ("fade", np.float64),
    ("next", np.int64),  # the next arc of the same list
    ("score", np.float64),  # log of the probability relative to that of the entry
    ("gains", np.float64),  # gains beyond those of the entry
])  # fmt: skip
COUNTERS = np.dtype([
    ("entries", np.int64),
    ("nodes", np.int64),
    ("runs", np.int64),
    ("arcs", np.int64),
    ("frame", np.int64),
    ("lookups", np.int64),  # queries to the language model
    ("scale", np.float64),  # log of the factor by which all probabilities have been divided
])  # fmt: skip
STAY = np.dtype([
    ("by_blank", np.float64),  # probabilities of an entry that stays, after this frame
    ("by_label", np.float64),
    ("held", np.float64),  # the part of both that does not come from its parent
    ("parent", np.int64),  # the entry that became it by its last label
    ("closed_run", np.int64),  # the run of its last label, closed in this frame
    ("eldest", np.int64),  # first of its children in the beam
    ("younger", np.int64),  # the next child of the same parent
])  # fmt: skip


class FrameScores(NamedTuple):
    """The outputs of a frame: S symbols, K labels of the model."""

    scores: np.ndarray  # (S,) log-probabilities of the symbols
    shares: np.ndarray  # (K, K) share of a label's probability, [a, b], that b has after a; (0, 0): it has all of it
    losses: np.ndarray  # (K, K) their logarithms
    labels: np.ndarray  # (S,) the label that each symbol stands for; 0, the space, stands for the beginning as well


class Beam(NamedTuple):
    """State of a stream. Only the first `counters.entries`, `.nodes`, `.runs`, `.arcs` elements of the arrays count."""

    entries: np.ndarray  # of ENTRY
    later: np.ndarray  # of ENTRY: room for those of the next frame
    nodes: np.ndarray  # of NODE
    runs: np.ndarray  # of RUN
    arcs: np.ndarray  # of ARC
    counters: np.ndarray  # (1,) of COUNTERS


def begin(lm_start: int) -> Beam:
    """The beam with only the empty prefix."""
    entries, nodes, counters = np.zeros(64, ENTRY), np.zeros(256, NODE), np.zeros(1, COUNTERS)
    root = entries[0]
    root["runs_blank"] = root["runs_label"] = root["arcs"] = root["arcs_before"] = NONE
    root["lm"] = lm_start
    root["by_blank"] = 1.0
    root["best_label"] = -math.inf
    root["gain_after"] = math.nan
    nodes[0] = (NONE, ROOT, NONE, NONE, 0, NONE)
    counters["entries"] = counters["nodes"] = 1
    return Beam(entries, np.zeros(64, ENTRY), nodes, np.zeros(256, RUN), np.zeros(0, ARC), counters)


@inlined
def set_node(node, parent, symbol):  # type: ignore[no-untyped-def]
    """Makes the node a leaf that follows `parent` by `symbol`."""
    node.parent, node.symbol = parent, symbol
    node.child = node.sibling = node.frame = NONE


@inlined
def child(parent, symbol, beam):  # type: ignore[no-untyped-def]
    """The child of a node for a symbol; it is created if it does not exist."""
    nodes, counters = beam.nodes, beam.counters[0]
    number = nodes[parent].child
    while number != NONE:
        if nodes[number].symbol == symbol:
            return number
        number = nodes[number].sibling
    new = counters.nodes
    counters.nodes += 1
    set_node(nodes[new], parent, symbol)
    nodes[new].sibling = nodes[parent].child
    nodes[parent].child = new
    return new


@inlined
def share(frame, before, symbol):  # type: ignore[no-untyped-def]
    """The share of a symbol's probability that it has after the symbol `before`."""
    if len(frame.shares) == 0:
        return 1.0
    return np.float64(frame.shares[0 if before == ROOT else frame.labels[before], frame.labels[symbol]])


@inlined
def extend_alignments(i, place, frame, chances, beam, stays):  # type: ignore[no-untyped-def]
    """Best alignments of an entry that stays, in its place in the next frame: the blank follows either ending; the
    label continues, or begins again."""
    entry, later = beam.entries[i], beam.later[place]
    # The blank follows the better ending; after the label, its run is over.
    if entry.best_blank >= entry.best_label:
        later.runs_blank = entry.runs_blank
        later.best_blank = entry.best_blank + frame.scores[BLANK]
    else:
        later.runs_blank = close_run(i, beam, stays)
        later.best_blank = entry.best_label + frame.scores[BLANK]
    # A label that is not tried in this frame cannot end the alignment.
    node = beam.nodes[entry.node]
    symbol = np.int64(node.symbol)
    if symbol == ROOT or chances[symbol] == 0.0 or share(frame, beam.nodes[node.parent].symbol, symbol) == 0.0:
        later.best_label = -math.inf
        return
    # The last label goes on in its run, unless the parent with this label as a new one gives a better alignment.
    score = _score_after(frame, beam.nodes[node.parent].symbol, symbol)
    on = entry.best_label + score
    later.best_label = on
    later.end = beam.counters[0].frame + 1
    later.peak = max(entry.peak, frame.scores[symbol])
    parent = stays[i].parent
    if parent != NONE and _before(parent, symbol, beam) + score > on:
        start_run(parent, place, symbol, frame, beam, stays)


@inlined
def start_run(i, place, symbol, frame, beam, stays):  # type: ignore[no-untyped-def]
    """A new run of `symbol` after the best alignment of entry i."""
    entry, later, t = beam.entries[i], beam.later[place], beam.counters[0].frame
    best = _before(i, symbol, beam)
    later.runs_label = runs_before(i, symbol, beam, stays)
    later.arcs_before, later.fade_before = entry.arcs, entry.fade
    later.start, later.end = t, t + 1
    last = beam.nodes[entry.node].symbol
    later.peak, later.best_label = frame.scores[symbol], best + _score_after(frame, last, symbol)


@inlined
def _score_after(frame, before, symbol):  # type: ignore[no-untyped-def]
    """Log-probability of a symbol after another one, of which it has a share."""
    if len(frame.shares) == 0:
        return np.float64(frame.scores[symbol])
    loss = frame.losses[0 if before == ROOT else frame.labels[before], frame.labels[symbol]]
    return np.float64(frame.scores[symbol] + loss)


@inlined
def runs_before(i, symbol, beam, stays):  # type: ignore[no-untyped-def]
    """The chain of runs of entry i that `symbol` follows."""
    entry = beam.entries[i]
    return entry.runs_blank if _before(i, symbol, beam) == entry.best_blank else close_run(i, beam, stays)


@inlined
def _before(i, symbol, beam):  # type: ignore[no-untyped-def]
    """Log-probability of the best alignment of entry i that `symbol` may follow."""
    entry = beam.entries[i]
    if beam.nodes[entry.node].symbol == symbol:
        return entry.best_blank
    return max(entry.best_blank, entry.best_label)


@inlined
def close_run(i, beam, stays):  # type: ignore[no-untyped-def]
    """The chain of runs of entry i whose last label ends here."""
    stay, counters = stays[i], beam.counters[0]
    if stay.closed_run == NONE:
        stay.closed_run = counters.runs
        counters.runs += 1
        entry, run = beam.entries[i], beam.runs[stay.closed_run]
        run.before, run.start, run.end, run.peak = entry.runs_label, entry.start, entry.end, entry.peak
        run.arcs, run.fade = entry.arcs_before, entry.fade_before
    return stay.closed_run


@compiled
def labels(beam, place):  # type: ignore[no-untyped-def]
    """(L,) the labels of an entry's prefix."""
    count, last = 0, beam.entries[place].node
    number = last
    while number != 0:
        count += 1
        number = beam.nodes[number].parent
    found = np.empty(count, np.int64)
    while last != 0:
        count -= 1
        found[count] = beam.nodes[last].symbol
        last = beam.nodes[last].parent
    return found
