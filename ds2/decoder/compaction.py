"""Drops the nodes, runs and arcs of a long search that none of its prefixes refers to any more."""

import numpy as np

from ds2.decoder.prefixes import ARC, NODE, NONE, ROOT, RUN, Beam, set_node
from ds2.utils.jit import inlined, without_references

REMEMBERED = 1500  # frames: arcs to what was before them are dropped as well, or they would grow with the stream


def compact(beam: Beam) -> Beam:
    """The same state without the nodes, runs and arcs that no entry refers to, and without old arcs."""
    counters = beam.counters
    kept = tuple(np.zeros(counters[name][0], np.bool_) for name in ("nodes", "runs", "arcs"))
    _mark(beam, *kept, np.empty(counters["arcs"][0], np.int64))
    for name, each in zip(("nodes", "runs", "arcs"), kept, strict=True):
        counters[name] = np.count_nonzero(each)
    nodes, runs, arcs = (
        np.zeros(2 * counters[name][0] + 256, kind) for name, kind in (("nodes", NODE), ("runs", RUN), ("arcs", ARC))
    )
    left = Beam(beam.entries, beam.later, nodes, runs, arcs, counters)
    _move(beam, left, *kept, *(np.cumsum(each) - 1 for each in kept))
    return left


@without_references
def _mark(beam, node_kept, run_kept, arc_kept, waiting):  # type: ignore[no-untyped-def]
    """Says which nodes, runs and arcs the entries refer to, including the root; `waiting` has room for all arcs."""
    count, node_kept[0] = 0, True
    for i in range(beam.counters[0].entries):
        entry = beam.entries[i]
        _mark_nodes(entry.node, beam, node_kept)
        for arc in (entry.arcs, entry.arcs_before):
            count = _mark_arcs(arc, beam, arc_kept, waiting, count)
        for run in (entry.runs_blank, entry.runs_label):
            count = _mark_runs(run, beam, run_kept, arc_kept, waiting, count)
    # Each arc waits until what it refers to has been marked.
    while count:
        count -= 1
        arc = beam.arcs[waiting[count]]
        _mark_nodes(arc.node, beam, node_kept)
        if arc.run != NONE and _is_old(arc.run, beam):
            arc.arcs = NONE
        count = _mark_arcs(arc.arcs, beam, arc_kept, waiting, count)
        count = _mark_runs(arc.run, beam, run_kept, arc_kept, waiting, count)


@inlined
def _mark_nodes(number, beam, node_kept):  # type: ignore[no-untyped-def]
    while not node_kept[number]:
        node_kept[number] = True
        number = np.int64(beam.nodes[number].parent)


@inlined
def _mark_runs(run, beam, run_kept, arc_kept, waiting, count):  # type: ignore[no-untyped-def]
    while run != NONE and not run_kept[run]:
        run_kept[run] = True
        if _is_old(run, beam):
            beam.runs[run].arcs = NONE
        count = _mark_arcs(beam.runs[run].arcs, beam, arc_kept, waiting, count)
        run = beam.runs[run].before
    return count


@inlined
def _is_old(run, beam):  # type: ignore[no-untyped-def]
    return beam.runs[run].start < beam.counters[0].frame - REMEMBERED


@inlined
def _mark_arcs(arc, beam, arc_kept, waiting, count):  # type: ignore[no-untyped-def]
    while arc != NONE and not arc_kept[arc]:
        arc_kept[arc], waiting[count] = True, arc
        count += 1
        arc = beam.arcs[arc].next
    return count


@without_references
def _move(beam, left, node_kept, run_kept, arc_kept, new_node, new_run, new_arc):  # type: ignore[no-untyped-def]
    """Copies the nodes, runs and arcs that are kept, under their new numbers."""
    # What is kept gets new numbers without gaps; all that refers to it is renumbered, the entries last.
    nodes, runs, arcs = left.nodes, left.runs, left.arcs
    set_node(nodes[0], NONE, ROOT)
    for number in range(1, len(node_kept)):  # parents precede their children
        if node_kept[number]:
            new, parent = new_node[number], new_node[beam.nodes[number].parent]
            set_node(nodes[new], parent, beam.nodes[number].symbol)
            nodes[new].sibling = nodes[parent].child
            nodes[parent].child = new
    for number in range(len(run_kept)):
        if run_kept[number]:
            run, old = runs[new_run[number]], beam.runs[number]
            run.start, run.end, run.peak, run.fade = old.start, old.end, old.peak, old.fade
            run.before, run.arcs = _renumbered(old.before, new_run), _renumbered(old.arcs, new_arc)
    for number in range(len(arc_kept)):
        if arc_kept[number]:
            arc, other = arcs[new_arc[number]], beam.arcs[number]
            arc.fade, arc.score, arc.gains = other.fade, other.score, other.gains
            arc.node, arc.run = new_node[other.node], _renumbered(other.run, new_run)
            arc.arcs, arc.next = _renumbered(other.arcs, new_arc), _renumbered(other.next, new_arc)
    for i in range(beam.counters[0].entries):
        entry = beam.entries[i]
        entry.node = new_node[entry.node]
        entry.runs_blank = _renumbered(entry.runs_blank, new_run)
        entry.runs_label = _renumbered(entry.runs_label, new_run)
        entry.arcs, entry.arcs_before = _renumbered(entry.arcs, new_arc), _renumbered(entry.arcs_before, new_arc)


@inlined
def _renumbered(number, new):  # type: ignore[no-untyped-def]
    return new[number] if number != NONE else NONE
