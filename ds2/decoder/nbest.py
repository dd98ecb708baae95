"""The best hypotheses of a beam, read one by one from the lattice of what recombination took out of it.

A hypothesis may follow an arc wherever its best alignment leaves a prefix that has any, for the log of the relative
probability at that time. It then goes on in the loser's history, which may have arcs itself.
"""

from collections.abc import Iterator

import numpy as np

from ds2.decoder.hypothesis import Hypothesis
from ds2.decoder.lexicon import Trie
from ds2.decoder.prefixes import NONE, Beam
from ds2.decoder.reads import EVERY, Reading, Reads, is_new, spell
from ds2.utils.jit import plain, without_references

FULL = -2  # what is read next has no room


def hypotheses(beam: Beam, scores: np.ndarray, gains: np.ndarray, reading: Reading = EVERY) -> Iterator[Hypothesis]:
    """The hypotheses of a beam, best first; they are read from the lattice one by one.

    Args:
        scores, gains: (N,) of the entries, nats.
    """
    reads, of_beam, of_text = Reads.of(scores, gains), plain(beam), plain(reading)
    while (number := _read_on(of_beam, of_text, plain(reads))) != NONE:
        if number == FULL:
            reads = reads.larger()
        else:
            yield reads.hypothesis(number)


@without_references
def _read_on(of_beam, of_text, of_reads):  # type: ignore[no-untyped-def]
    """The place of the next read with a text of its own; NONE if there is none more, FULL if it has no room."""
    most, trie, texts, space = of_text
    beam, reading, reads = Beam(*of_beam), Reading(most, Trie(*trie), texts, space), Reads(*of_reads)
    counts, waiting, before = reads.counts[0], reads.waiting, np.int64(NONE)
    while counts.waiting and counts.strings < most:
        best = 0
        for place in range(1, counts.waiting):
            one, other = waiting[place], waiting[best]
            if one.cost < other.cost or (one.cost == other.cost and one.number < other.number):
                best = place
        if counts.reads == len(reads.reads) or counts.waiting == len(waiting) or not _read(beam, reads, waiting[best]):
            return FULL
        number, left, way = counts.reads, waiting[best].left, waiting[best].way
        counts.reads += 1
        counts.waiting -= 1
        waiting[best] = waiting[counts.waiting]
        # Next come the best way to leave it, and the next best one to leave what it has left.
        _wait(beam, reads, number, before)
        if left != NONE:
            _wait(beam, reads, left, way)
        text = reads.texts[number]
        # Until it is spelt it has no hash of any text.
        text.first, text.past, text.hash = counts.words, counts.words, 0
        if not is_new(reads.symbols, reads.strings, number):
            continue
        counts.strings += 1
        if not len(texts):
            return number
        spell(reading, reads, number)
        if is_new(reads.words, reads.texts, number):
            return number
    return NONE


@without_references
def _wait(beam, reads, left, before):  # type: ignore[no-untyped-def]
    """Lets the best way to leave a read wait that comes after the way `before`, if there is one."""
    counts, read, ways, best = reads.counts[0], reads.reads[left], reads.ways, NONE
    for way in range(read.ways, read.ways_past):
        cost = ways[way].cost
        later = before == NONE or cost > ways[before].cost or (cost == ways[before].cost and way > before)
        if later and (best == NONE or cost < ways[best].cost):
            best = way
    if best != NONE:
        one = reads.waiting[counts.waiting]
        one.cost, one.gains = read.cost + ways[best].cost, read.gains + beam.arcs[ways[best].arc].gains
        one.number, one.entry, one.left, one.way = counts.pushed, read.entry, left, best
        counts.waiting += 1
        counts.pushed += 1


@without_references
def _read(beam, reads, best):  # type: ignore[no-untyped-def]
    """Reads what waits: its own labels, then those of the read that it goes on in; False if there is no room."""
    counts, symbols, times, peaks = reads.counts[0], reads.symbols, reads.times, reads.peaks
    entry, first, way = beam.entries[best.entry], counts.labels, counts.ways
    # The last label is open, without a run, while the best alignment of an entry ends in it.
    open_ = best.left == NONE and entry.best_blank < entry.best_label
    node, run, arcs, fade = entry.node, entry.runs_label if open_ else entry.runs_blank, entry.arcs, entry.fade
    other_first = other_past = np.int64(0)
    if best.left != NONE:
        arc, other = beam.arcs[reads.ways[best.way].arc], reads.strings[best.left]
        node, run, arcs, fade = arc.node, arc.run, arc.arcs, arc.fade
        other_first, other_past = other.first + reads.ways[best.way].place, other.past
    above, own = node, first
    while above != 0:
        above, own = np.int64(beam.nodes[above].parent), own + 1
    past = own + other_past - other_first
    if past > len(symbols) or counts.words + past - first >= len(reads.words):
        return False
    # Backwards: the arcs that lead away before each label, then the label with its times.
    for label in range(own - 1, first - 1, -1):
        while arcs != NONE:
            if way == len(reads.ways):
                return False
            one = reads.ways[way]
            one.place, one.arc, one.cost = label - first, arcs, -(beam.arcs[arcs].score + fade)
            arcs, way = beam.arcs[arcs].next, way + 1
        symbols[label] = beam.nodes[node].symbol
        node = np.int64(beam.nodes[node].parent)
        if open_:
            times[label, 0], times[label, 1], peaks[label] = entry.start, entry.end, entry.peak
            arcs, fade, open_ = entry.arcs_before, entry.fade_before, False
        else:
            closed = beam.runs[run]
            times[label, 0], times[label, 1], peaks[label] = closed.start, closed.end, closed.peak
            run, arcs, fade = closed.before, closed.arcs, closed.fade
    _go_on(reads, other_first, first, own, past)
    read, string = reads.reads[counts.reads], reads.strings[counts.reads]
    read.cost, read.gains, read.entry, read.ways, read.ways_past = best.cost, best.gains, best.entry, counts.ways, way
    string.first, string.past, counts.labels, counts.ways = first, past, past, way
    return True


@without_references
def _go_on(reads, other, first, own, past):  # type: ignore[no-untyped-def]
    """Copies the labels from `other` on behind those of a read, from `own` up to `past`."""
    symbols, times, peaks = reads.symbols, reads.times, reads.peaks
    for label in range(own, past):
        symbols[label], peaks[label] = symbols[other], peaks[other]
        times[label, 0], times[label, 1] = times[other, 0], times[other, 1]
        other += 1
    # The label after an arc may have begun later in the loser than in the winner, and so may those that follow it.
    label = own if own > first else own + 1
    while label < past and times[label, 0] < times[label - 1, 1]:
        times[label, 0] = times[label - 1, 1]
        if times[label, 1] <= times[label, 0]:
            times[label, 1] = times[label, 0] + 1
        label += 1
