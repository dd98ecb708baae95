"""Prefix beam search, frame by frame, without Python.

    entries --+-- stay as they are ------+-- the best, by a threshold --> entries of the next frame
              +-- with one more label ---+

Probabilities are linear, those of the language model included, and scaled to 1 for the best entry after every frame, so
the search needs sums and products but no logarithms. An entry with one more label may equal another entry; then the two
are added. The best entries are selected, not sorted. README.md, "Scoring", has the formulas.

Code that runs in every frame allocates no arrays, and is compiled without numba's reference counting, which would take
two thirds of the time. `decode` allocates them in Python, because numba takes a tenth of a second to compile each
allocation; it calls `search` again where an array was too small.
"""

import math

import numpy as np

from ds2.decoder import beam_pruning, candidates, prefixes
from ds2.decoder.compaction import compact
from ds2.decoder.lattice import keep_arcs
from ds2.decoder.prefixes import NONE, ROOT, Beam, FrameScores
from ds2.decoder.recombination import recombine
from ds2.decoder.scoring import SearchTables
from ds2.decoder.scratch import make_scratch
from ds2.text import BLANK
from ds2.utils.jit import inlined, without_references

NO_BIPHONES = np.zeros((1, 0, 0), np.float32)


def search_frames(beam: Beam, log_probs: np.ndarray, tables: SearchTables, biphones: np.ndarray | None = None) -> Beam:
    """Advances a stream by (T, V) log-probabilities; returns its state, in larger arrays where it needs more room.

    `biphones`: (T, K, K) nats, at most 0, [a, b]: what label b loses after label a (ds2/model/biphones.py).
    """
    outputs, settings, done = log_probs.shape[1], tables.settings[0], 0
    losses = NO_BIPHONES if biphones is None else biphones
    shares = np.exp(losses)
    scratch = make_scratch(outputs, 64, 256, settings)
    while True:
        done, most = search(log_probs, shares, losses, done, beam, scratch, tables)
        if done == len(log_probs):
            return beam
        count = int(beam.counters["entries"][0])
        if most > len(scratch.candidates) or count > len(scratch.stays):
            room = max(2 * most, len(scratch.candidates))
            scratch = make_scratch(outputs, 2 * count, room, settings)
        beam = _make_room(beam, min(int(settings["beam_width"]), count + most), settings)


def _make_room(beam: Beam, left: int, settings: np.void) -> Beam:
    """The same state with room for a frame that leaves `left` entries. Where it has more nodes, runs or arcs than
    `tidy`, it first drops those that no entry refers to."""
    tidy, needed = settings["tidy"], _needed(beam, left, settings["arcs"])
    if any(tidy < size > len(array) for size, array in zip(needed, (beam.nodes, beam.runs, beam.arcs), strict=True)):
        beam = compact(beam)
        needed = _needed(beam, left, settings["arcs"])
    nodes, runs, arcs = map(_larger, (beam.nodes, beam.runs, beam.arcs), needed)
    return Beam(_larger(beam.entries, left), _larger(beam.later, left), nodes, runs, arcs, beam.counters)


def _needed(beam: Beam, left: int, arcs: int) -> tuple[int, int, int]:
    """The number of nodes, of runs and of arcs after a frame that leaves `left` entries."""
    counters = beam.counters[0]
    runs = int(counters["runs"] + counters["entries"])
    return int(counters["nodes"]) + left, runs, int(counters["arcs"] + left * arcs)


def _larger(values: np.ndarray, size: int) -> np.ndarray:
    """The same values in an array with room for `size`."""
    if size <= len(values):
        return values
    larger = np.empty(2 * size, values.dtype)
    larger[: len(values)] = values
    return larger


@without_references
def search(log_probs, shares, losses, done, beam, scratch, tables):  # type: ignore[no-untyped-def]
    """Continues from frame `done`, until all are done or one needs more room: (frames done, candidates of that one)."""
    counters, settings = beam.counters[0], tables.settings[0]
    floor, began, most, fits = math.exp(-settings.score_threshold), done, 0, True
    while done < len(log_probs) and fits:
        # Where the arrays could be too small for all candidates, the caller enlarges them; this frame begins again.
        labels = beam_pruning.choose(log_probs[done], settings, scratch)
        most = candidates.most_candidates(labels, beam, tables)
        fits = _has_room(most, beam, scratch, settings)
        if fits:
            place = min(done, len(shares) - 1)
            frame = FrameScores(log_probs[done], shares[place], losses[place], tables.labels)
            _move_on(frame, labels, floor, beam, scratch, tables)
            beam = Beam(beam.later, beam.entries, beam.nodes, beam.runs, beam.arcs, beam.counters)
            done += 1
        beam_pruning.forget(labels, settings, scratch)
    # After an odd number of frames the entries are in the array that the caller holds for the next frame.
    if (done - began) % 2:
        for i in range(counters.entries):
            beam.later[i] = beam.entries[i]
    return done, most


@inlined
def _has_room(most, beam, scratch, settings):  # type: ignore[no-untyped-def]
    """Whether the arrays are large enough for a frame with `most` candidates."""
    counters = beam.counters[0]
    left = min(settings.beam_width, counters.entries + most)
    return (
        counters.entries <= len(scratch.stays)
        and most <= len(scratch.candidates)
        and left <= len(beam.later)
        and left <= len(beam.entries)
        and counters.nodes + left <= len(beam.nodes)
        and counters.runs + counters.entries <= len(beam.runs)
        and counters.arcs + left * settings.arcs <= len(beam.arcs)
    )


@inlined
def _move_on(frame, labels, floor, beam, scratch, tables):  # type: ignore[no-untyped-def]
    """One frame: fills `beam.later`."""
    counters = beam.counters[0]
    # What each entry becomes by staying comes first: the best of it says how small a new candidate may be.
    best = _stay_all(frame, beam, scratch)
    new = candidates.extend_all(frame, labels, best * floor, beam, scratch, tables)
    # Entries that stay and candidates now compete with each other; of those that continue alike one is left.
    top = _score_all(new, counters.entries, scratch)
    if tables.settings[0].recombine:
        recombine(new, top * floor, beam, scratch)
    left = beam_pruning.select(counters.entries + new, top, floor, tables.settings[0].beam_width, scratch)
    # The best become the entries of the next frame, divided by the very best; the scale remembers by how much.
    _keep_all(left, top, frame, beam, scratch)
    if tables.settings[0].arcs:
        for place in range(left):
            keep_arcs(scratch.kept[place], place, beam, scratch)
    counters.entries = left
    counters.frame += 1
    if left:
        counters.scale += math.log(top)


@inlined
def _stay_all(frame, beam, scratch):  # type: ignore[no-untyped-def]
    """Probabilities, by either ending, of the entries that stay in this frame; which are children of which. Returns
    the best."""
    nodes, best, t, blank = beam.nodes, 0.0, beam.counters[0].frame, math.exp(frame.scores[BLANK])
    # Each entry stays by a blank or by its last label again, and its node says which entry it is in this frame.
    for i in range(beam.counters[0].entries):
        entry, stay = beam.entries[i], scratch.stays[i]
        stay.parent = stay.closed_run = stay.eldest = stay.younger = NONE
        node = nodes[entry.node]
        stay.by_blank = (entry.by_blank + entry.by_label) * blank
        stay.by_label = 0.0
        if node.symbol != ROOT:
            chance = scratch.chances[node.symbol] * prefixes.share(frame, nodes[node.parent].symbol, node.symbol)
            stay.by_label = entry.by_label * chance
        stay.held = stay.by_blank + stay.by_label
        best = max(best, stay.held)
        node.entry, node.frame = i, t
    # An entry whose parent is in the beam as well is chained to it: the parent can become it.
    for j in range(beam.counters[0].entries):
        parent = nodes[beam.entries[j].node].parent
        if parent != NONE and nodes[parent].frame == t:
            stay = scratch.stays[nodes[parent].entry]
            scratch.stays[j].younger = stay.eldest
            stay.eldest = j
    return best


@inlined
def _score_all(new, count, scratch):  # type: ignore[no-untyped-def]
    """Fills (count + new,) scores, those of the entries that stay first; returns the best."""
    scores, top = scratch.scores, 0.0
    for i in range(count):
        scores[i] = scratch.stays[i].by_blank + scratch.stays[i].by_label
        top = max(top, scores[i])
    for i in range(new):
        scores[count + i] = scratch.candidates[i].chance
        top = max(top, scores[count + i])
    return top


@inlined
def _keep_all(left, top, frame, beam, scratch):  # type: ignore[no-untyped-def]
    """The entries of the next frame: those kept, scaled by the best."""
    count = beam.counters[0].entries
    for place in range(left):
        number = scratch.kept[place]
        if number < count:
            stay, later = scratch.stays[number], beam.later
            later[place] = beam.entries[number]
            later[place].by_blank, later[place].by_label = stay.by_blank / top, stay.by_label / top
            prefixes.extend_alignments(number, place, frame, scratch.chances, beam, scratch.stays)
        else:
            _keep_new(scratch.candidates[number - count], place, top, frame, beam, scratch)


@inlined
def _keep_new(candidate, place, top, frame, beam, scratch):  # type: ignore[no-untyped-def]
    later, parent = beam.later[place], beam.entries[candidate.entry]
    later.node = prefixes.child(parent.node, candidate.label, beam)
    later.lm, later.lexicon = candidate.lm, candidate.lexicon
    later.by_blank, later.by_label = 0.0, candidate.chance / top
    later.gains, later.gain_after = candidate.gains, math.nan
    later.best_blank, later.runs_blank = -math.inf, NONE
    later.arcs, later.fade = NONE, 0.0
    prefixes.start_run(candidate.entry, place, candidate.label, frame, beam, scratch.stays)
