"""Selects the labels to try in a frame, and the prefixes to keep after it."""

import math

import numpy as np

from ds2.text import BLANK
from ds2.utils.fast_exp import exponential
from ds2.utils.jit import inlined

LEAST = -80.0  # nats; less is no probability


@inlined
def choose(frame, settings, scratch):  # type: ignore[no-untyped-def]
    """The number of labels to try: the fewest that reach the cumulative probability together with the blank, at most
    max_symbols. They are `chosen`, the most probable first, without the space, which is always tried."""
    # Where the blank is nearly certain, no label is tried.
    if not math.exp(frame[BLANK]) < settings.blank_skip:
        return 0
    chosen, chances = scratch.chosen, scratch.chances
    limited = settings.cumulative_probability < 1.0 or settings.max_symbols < len(frame)
    if settings.spells and settings.closed and not limited:
        all_chances(frame, chances)
        return len(frame) - (1 if settings.space < 0 else 2)  # the lexicon chooses among them
    if settings.space >= 0:
        chances[settings.space] = math.exp(frame[settings.space])
    # The labels leave a heap one by one, the most probable first: most frames need few of many outputs.
    waiting = _likely(frame, settings, scratch.heap)
    reached, tried, kept, blank_waits = 0.0, 0, 0, True
    while waiting > 0:
        symbol = scratch.heap[0]
        if blank_waits and frame[BLANK] >= frame[symbol]:  # the blank has its place among them
            reached += math.exp(frame[BLANK])
            tried += 1
            blank_waits = False
        if tried >= settings.max_symbols:
            break
        if settings.cumulative_probability < 1.0 and reached >= settings.cumulative_probability:
            break
        chance = math.exp(frame[symbol])
        reached += chance
        tried += 1
        if symbol != settings.space:
            chances[symbol] = chance
            chosen[kept] = symbol
            kept += 1
        # The last label of the heap takes the place of the one that has left, and sinks.
        waiting -= 1
        scratch.heap[0] = scratch.heap[waiting]
        _sift(frame, scratch.heap, np.int64(0), waiting)
    return kept


@inlined
def all_chances(frame, chances):  # type: ignore[no-untyped-def]
    """(V,) log-probabilities -> (V,) probabilities, 0 of the blank: no entry has it as a label."""
    for symbol in range(len(frame)):
        chances[symbol] = exponential(frame[symbol]) if frame[symbol] > LEAST else 0.0
    chances[BLANK] = 0.0


@inlined
def _likely(frame, settings, heap):  # type: ignore[no-untyped-def]
    """A heap, the most probable first, of the labels that can matter; returns their number. All others together have
    less probability than may be missing."""
    least, found = -math.inf, np.int64(0)
    if settings.cumulative_probability < 1.0:
        least = math.log((1.0 - settings.cumulative_probability) / len(frame))
    for symbol in range(1, len(frame)):
        heap[found] = symbol
        found += frame[symbol] > least
    for place in range(found // 2 - 1, -1, -1):
        _sift(frame, heap, place, found)
    return found


@inlined
def _sift(frame, heap, place, count):  # type: ignore[no-untyped-def]
    """Moves a label down a heap of `count` labels until none below it precedes it."""
    symbol, below = heap[place], 2 * place + 1
    while below < count:
        below += below + 1 < count and _precedes(frame, heap[below + 1], heap[below])
        if _precedes(frame, symbol, heap[below]):
            break
        heap[place] = heap[below]
        place, below = below, 2 * below + 1
    heap[place] = symbol


@inlined
def _precedes(frame, symbol, other):  # type: ignore[no-untyped-def]
    """Whether a label is more probable than another; the first of equal ones precedes."""
    return frame[other] < frame[symbol] or (frame[other] == frame[symbol] and symbol < other)


@inlined
def forget(labels, settings, scratch):  # type: ignore[no-untyped-def]
    """Sets the chances of the chosen labels back to 0."""
    if labels + 2 >= len(scratch.chances):  # all but the blank and the space
        for symbol in range(len(scratch.chances)):
            scratch.chances[symbol] = 0.0
        return
    for k in range(labels):
        scratch.chances[scratch.chosen[k]] = 0.0
    if settings.space >= 0:
        scratch.chances[settings.space] = 0.0


@inlined
def select(count, top, floor, width, scratch):  # type: ignore[no-untyped-def]
    """Fills `kept` with the numbers of the `width` best that are not below the floor, the first of equal ones; returns
    their number."""
    if top <= 0.0:
        return 0
    scores, spare, least, over, left = scratch.scores, scratch.spare, top * floor, np.int64(0), 0
    for number in range(count):
        spare[over], scratch.kept[over] = scores[number], number
        over += scores[number] >= least and scores[number] > 0.0
    if over <= width:
        return over
    # Where too many are above the floor, the lowest score that still has a place is the new floor; `equal` prefixes
    # with exactly this score have a place as well.
    equal, least = width, _ranked(spare, over, width - 1)  # number of elements equal to the lowest that may be kept
    for number in range(count):
        equal -= scores[number] > least
    # They are taken in their order, which ends ties by the number and not by the selection.
    for number in range(count):
        if left < width and (scores[number] > least or (scores[number] == least and equal > 0)):
            equal -= scores[number] == least
            scratch.kept[left] = number
            left += 1
    return left


@inlined
def _ranked(values, count, rank):  # type: ignore[no-untyped-def]
    """The value at `rank` in descending order among the first `count`; reorders them (Hoare 1961, "Find")."""
    low, high = 0, count - 1
    while low < high:
        # The larger values move before the pivot, the smaller ones behind it; the half with the rank is next.
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if j < rank < i:
            break
        low, high = (low, j) if rank <= j else (i, high)
    return values[rank]
