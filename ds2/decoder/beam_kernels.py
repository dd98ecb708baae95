"""Prefix beam search, one frame after the other, without Python.

Prefixes are nodes of a tree; those of the beam are entries:

    tree   root -- a -- b      entry: its node; probability of all its alignments that end in the blank, and of those
                    \\           that end in its last label; its score of language model and bonuses; the best
                     \\-- c      single alignment of either ending, whose runs (chained back) give the times

Probabilities are linear, language model included, scaled to 1 for the best entry after every frame: sums and products,
no logarithms. A frame makes two kinds of candidates, entries that stay as they are and entries with one more label; an
extension that is an entry itself is added to it. The best are selected by a threshold, not sorted.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ds2.decoder.ngram import advance, compiled, find_arc, inlined, without_references

ROOT = -1  # symbol of the empty prefix
NONE = -1
BLANK = 0
UNKNOWN = 0  # <unk>'s number in every language model
OUTSIDE = -1  # in place of a lexicon's node: the word is not in the lexicon
FEW = 64  # symbols that are sorted by insertion
NO_LM, WORDS, TOKENS = 0, 1, 2  # what the language model is over

# Columns of an entry: integers
NODE, LM, LEX, RUNS_BLANK, RUNS_LABEL, START, END, LM_AFTER = range(8)
# and reals: probabilities of both endings, log of all gains, logs of best alignments, log of the label's peak, and the
# gain of ending the word here (NaN until it is asked for).
BY_BLANK, BY_LABEL, GAINS, BEST_BLANK, BEST_LABEL, PEAK, GAIN_AFTER = range(7)
# Columns of a node
PARENT, SYMBOL, CHILD, SIBLING, SLOT, STAMP = range(6)
# Within a frame. Links of an entry: the entry that became it by its last label, the run that ends here, its children
FROM, CLOSED_RUN, ELDEST, YOUNGER = range(4)
# Columns of a candidate with one label more, integers and reals
ENTRY, LABEL, NEW_LM, NEW_LEX = range(4)
CHANCE, NEW_GAINS = range(2)
# Columns of a run
BEFORE, RUN_START, RUN_END = range(3)
# Counters
ENTRIES, NODES, RUNS, FRAME, LOOKUPS = range(5)
# Settings
WIDTH, MAX_SYMBOLS, SPACE, CLOSED, LM_KIND = range(5)
CUMULATIVE, THRESHOLD, LM_WEIGHT, BONUS, UNKNOWN_SCORE, UNKNOWN_LETTER, SKIP, MOST, MOST_AT_END = range(9)


class Tables(NamedTuple):
    """What a decoder searches by.

    Attributes:
        whole, real: settings, in the order of the constants above; MOST is what one label can gain at most, and
            MOST_AT_END what the end of a word can, beyond what was hoped for at its beginning.
        lm: automaton of an NGram.
        lexicon: arrays of a Lexicon, and what (N,) the best single word below each node gains, which a beginning of a
            word is given in advance.
        boosts: (words,) of the lexicon.
        numbers: the language model's number of each word of the lexicon, or, without one, of each token; -1: none.
    """

    whole: np.ndarray
    real: np.ndarray
    lm: tuple[Any, ...]
    lexicon: tuple[np.ndarray, ...]
    boosts: np.ndarray
    numbers: np.ndarray


@compiled
def begin(lm_start):  # type: ignore[no-untyped-def]
    """State of a stream: entries (integers, reals), nodes, runs (integers, peaks), counters, log of the scale."""
    entries = np.zeros((64, 8), np.int64)
    reals = np.zeros((64, 7))
    nodes = np.full((256, 6), NONE, np.int32)
    runs = np.zeros((256, 3), np.int32)
    entries[0, RUNS_BLANK] = entries[0, RUNS_LABEL] = NONE
    entries[0, LM] = lm_start
    reals[0, BY_BLANK] = 1.0
    reals[0, BEST_LABEL] = -math.inf
    reals[0, GAIN_AFTER] = math.nan
    nodes[0, SYMBOL] = ROOT
    counters = np.array([1, 1, 0, 0, 0])
    return entries, reals, nodes, runs, np.zeros(256), counters, np.zeros(1)


@compiled
def decode(state, frames, tables):  # type: ignore[no-untyped-def]
    """Moves a stream on by (T, V) log-probabilities; returns the new state.

    Only this function makes room: what it calls in every frame gets arrays that are large enough.
    """
    entries, reals, nodes, runs, peaks, counters, scale = state
    outputs = frames.shape[1]
    chosen = np.empty(outputs, np.int64)
    chances = np.zeros(outputs)
    active = np.full(outputs, NONE)  # entry of the child of the present entry by each symbol
    # What a frame needs is allocated once, and grows: at 2 us a frame, allocation would be half of the time.
    links, stays = np.empty((64, 4), np.int64), np.empty((64, 2))
    next_entries, next_reals = np.empty((64, 8), np.int64), np.empty((64, 7))
    added, gained = np.empty((256, 4), np.int64), np.empty((256, 2))
    scores, kept = np.empty(256), np.empty(256, np.int64)
    floor = math.exp(-tables.real[THRESHOLD])
    for row in range(frames.shape[0]):
        frame, count = frames[row], counters[ENTRIES]
        labels = _choose(frame, tables, chosen, chances) if math.exp(frame[BLANK]) < tables.real[SKIP] else 0
        if count > len(links):
            links, stays = np.empty((2 * count, 4), np.int64), np.empty((2 * count, 2))
        most = count * (labels + 1)
        if most > len(added):
            added, gained = np.empty((2 * most, 4), np.int64), np.empty((2 * most, 2))
        if count + most > len(scores):
            scores, kept = np.empty(2 * (count + most)), np.empty(2 * (count + most), np.int64)
        best = _stay_all(math.exp(frame[BLANK]), chances, entries, reals, nodes, counters, links, stays)
        new = _extend_all(
            chosen, labels, chances, best * floor, entries, reals, nodes, counters, links, stays, active, added, gained,
            tables,
        )  # fmt: skip
        top = _score_all(count, new, stays, gained, scores)
        left = _select(scores, count + new, top, tables.whole[WIDTH], floor, kept)
        if left > len(next_entries):
            next_entries, next_reals = np.empty((2 * left, 8), np.int64), np.empty((2 * left, 7))
        if counters[RUNS] + count > len(runs):
            runs = _grown_rows(runs, 2 * len(runs) + count)
            peaks = _grown(peaks, len(runs))
        if counters[NODES] + left > len(nodes):
            nodes = _grown_rows(nodes, 2 * len(nodes) + left)
        _keep_all(
            kept, left, top, frame, chances, entries, reals, nodes, runs, peaks, counters, links, stays, added, gained,
            next_entries, next_reals,
        )  # fmt: skip
        entries, next_entries = next_entries, entries
        reals, next_reals = next_reals, reals
        counters[ENTRIES] = left
        counters[FRAME] += 1
        if left:
            scale[0] += math.log(top)
        for k in range(labels):
            chances[chosen[k]] = 0.0
        if tables.whole[SPACE] >= 0:
            chances[tables.whole[SPACE]] = 0.0
    return entries, reals, nodes, runs, peaks, counters, scale


@without_references
def _stay_all(blank, chances, entries, reals, nodes, counters, links, stays):  # type: ignore[no-untyped-def]
    """Probabilities of the entries as they are after this frame, by either ending; which are children of which. Returns
    the best."""
    best, t = 0.0, counters[FRAME]
    for i in range(counters[ENTRIES]):
        for column in range(4):
            links[i, column] = NONE
        node = entries[i, NODE]
        symbol = nodes[node, SYMBOL]
        stays[i, BY_BLANK] = (reals[i, BY_BLANK] + reals[i, BY_LABEL]) * blank
        stays[i, BY_LABEL] = reals[i, BY_LABEL] * chances[symbol] if symbol != ROOT else 0.0
        best = max(best, stays[i, BY_BLANK] + stays[i, BY_LABEL])
        nodes[node, SLOT], nodes[node, STAMP] = i, t
    for j in range(counters[ENTRIES]):
        parent = nodes[entries[j, NODE], PARENT]
        if parent != NONE and nodes[parent, STAMP] == t:
            i = nodes[parent, SLOT]
            links[j, YOUNGER], links[i, ELDEST] = links[i, ELDEST], j
    return best


@without_references
def _extend_all(  # type: ignore[no-untyped-def]
    chosen, labels, chances, least, entries, reals, nodes, counters, links, stays, active, added, gained, tables,
):  # fmt: skip
    """Each entry with one label more: added to the entry that it is, if it is one, or to the candidates; returns how
    many these are."""
    free, space, new = math.exp(tables.real[MOST]), tables.whole[SPACE], 0
    for i in range(counters[ENTRIES]):
        last = nodes[entries[i, NODE], SYMBOL]
        by_blank, both = reals[i, BY_BLANK], reals[i, BY_BLANK] + reals[i, BY_LABEL]
        j = links[i, ELDEST]
        while j != NONE:
            symbol = nodes[entries[j, NODE], SYMBOL]
            active[symbol] = j
            chance = (by_blank if symbol == last else both) * chances[symbol]
            if chance > 0.0:
                change = reals[j, GAINS] - reals[i, GAINS]
                stays[j, BY_LABEL] += chance * math.exp(change) if change != 0.0 else chance
                links[j, FROM] = i
            j = links[j, YOUNGER]
        for k in range(labels):
            symbol = chosen[k]
            if both * chances[symbol] * free < least:
                break  # all others are less probable
            if active[symbol] == NONE:
                chance = (by_blank if symbol == last else both) * chances[symbol]
                new += _add(new, i, symbol, chance, least, entries, reals, counters, added, gained, tables)
        if space >= 0 and active[space] == NONE:
            chance = (by_blank if space == last else both) * chances[space]
            if not _cannot_end(i, chance, least, entries, reals, tables):
                new += _add(new, i, space, chance, least, entries, reals, counters, added, gained, tables)
        j = links[i, ELDEST]
        while j != NONE:
            active[nodes[entries[j, NODE], SYMBOL]] = NONE
            j = links[j, YOUNGER]
    return new


@inlined
def _add(new, i, symbol, chance, least, entries, reals, counters, added, gained, tables):  # type: ignore[no-untyped-def]
    """Entry i with one label more as candidate `new`, if it may be and is probable enough; whether it was."""
    if chance <= 0.0:
        return 0
    allowed, gain, state, node = _extend(i, symbol, entries, reals, counters, tables)
    if not allowed:
        return 0
    if gain != 0.0:
        chance *= math.exp(gain)
    if chance < least or chance <= 0.0:
        return 0
    added[new, ENTRY], added[new, LABEL], added[new, NEW_LM], added[new, NEW_LEX] = i, symbol, state, node
    gained[new, CHANCE], gained[new, NEW_GAINS] = chance, reals[i, GAINS] + gain
    return 1


@without_references
def _score_all(count, new, stays, gained, scores):  # type: ignore[no-untyped-def]
    """Fills (count + new,) probabilities, entries that stay first; returns the best."""
    top = 0.0
    for i in range(count):
        scores[i] = stays[i, BY_BLANK] + stays[i, BY_LABEL]
        top = max(top, scores[i])
    for i in range(new):
        scores[count + i] = gained[i, CHANCE]
        top = max(top, scores[count + i])
    return top


@without_references
def _keep_all(  # type: ignore[no-untyped-def]
    kept, left, top, frame, chances, entries, reals, nodes, runs, peaks, counters, links, stays, added, gained,
    next_entries, next_reals,
):  # fmt: skip
    """The entries of the next frame: those kept, scaled by the best."""
    count = counters[ENTRIES]
    for place in range(left):
        i = kept[place]
        if i < count:
            for column in range(8):
                next_entries[place, column] = entries[i, column]
            for column in range(7):
                next_reals[place, column] = reals[i, column]
            next_reals[place, BY_BLANK] = stays[i, BY_BLANK] / top
            next_reals[place, BY_LABEL] = stays[i, BY_LABEL] / top
            _stay(
                i, place, frame, chances, entries, reals, nodes, runs, peaks, counters, links, next_entries, next_reals
            )
        else:
            new = i - count
            i, symbol = added[new, ENTRY], added[new, LABEL]
            next_entries[place, NODE] = _child(entries[i, NODE], symbol, nodes, counters)
            next_entries[place, LM], next_entries[place, LEX] = added[new, NEW_LM], added[new, NEW_LEX]
            next_reals[place, BY_BLANK], next_reals[place, BY_LABEL] = 0.0, gained[new, CHANCE] / top
            next_reals[place, GAINS] = gained[new, NEW_GAINS]
            next_reals[place, GAIN_AFTER] = math.nan
            next_reals[place, BEST_BLANK], next_entries[place, RUNS_BLANK] = -math.inf, NONE
            _start_run(
                i, place, symbol, frame, entries, reals, nodes, runs, peaks, counters, links, next_entries, next_reals
            )


@compiled
def _choose(frame, tables, chosen, chances):  # type: ignore[no-untyped-def]
    """The labels worth trying: the fewest whose probability, with the blank's, reaches the cumulative one, and no more
    than MAX_SYMBOLS. Fills `chosen` with them, the most probable first, without the space, which is always tried, and
    the `chances` of both; returns how many are chosen."""
    space, found = tables.whole[SPACE], _likely(frame, tables, chosen)
    if found > FEW:
        chosen[:found] = chosen[:found][np.argsort(-frame[chosen[:found]], kind="mergesort")]
    else:
        _sort(frame, chosen, found)
    if space >= 0:
        chances[space] = math.exp(frame[space])
    return _cut(frame, tables, chosen, found, chances)


@without_references
def _likely(frame, tables, chosen):  # type: ignore[no-untyped-def]
    """Fills `chosen` with the labels that can matter at all; returns how many. All others together have less than what
    may be missing."""
    least, found = -math.inf, 0
    if tables.real[CUMULATIVE] < 1.0:
        least = math.log((1.0 - tables.real[CUMULATIVE]) / len(frame))
    for symbol in range(1, len(frame)):
        chosen[found] = symbol
        found += frame[symbol] > least
    return found


@without_references
def _sort(frame, chosen, found):  # type: ignore[no-untyped-def]
    """By insertion: numba's sorts cost microseconds."""
    for place in range(1, found):
        symbol = chosen[place]
        while place > 0 and frame[chosen[place - 1]] < frame[symbol]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = symbol


@without_references
def _cut(frame, tables, chosen, found, chances):  # type: ignore[no-untyped-def]
    """Keeps the first of the sorted labels that are enough, and fills in their chances; returns how many besides the
    space."""
    reached, tried, kept, blank_waits = 0.0, 0, 0, True
    for place in range(found):
        symbol = chosen[place]
        if blank_waits and frame[BLANK] >= frame[symbol]:  # the blank has its place among them
            reached += math.exp(frame[BLANK])
            tried += 1
            blank_waits = False
        if tried >= tables.whole[MAX_SYMBOLS] or (tables.real[CUMULATIVE] < 1.0 and reached >= tables.real[CUMULATIVE]):
            break
        chance = math.exp(frame[symbol])
        reached += chance
        tried += 1
        if symbol != tables.whole[SPACE]:
            chances[symbol] = chance
            chosen[kept] = symbol
            kept += 1
    return kept


@inlined
def _extend(i, symbol, entries, reals, counters, tables):  # type: ignore[no-untyped-def]
    """(allowed, gain, state of the language model, node of the lexicon) of entry i with one more label."""
    state, node = entries[i, LM], entries[i, LEX]
    if tables.whole[LM_KIND] == TOKENS:
        if tables.numbers[symbol] == NONE:
            return True, 0.0, state, node
        log_prob, state = advance(tables.lm, state, tables.numbers[symbol])
        counters[LOOKUPS] += 1
        return True, tables.real[LM_WEIGHT] * log_prob + tables.real[BONUS], state, node
    if tables.whole[SPACE] < 0 or len(tables.lexicon[3]) == 1:
        return True, 0.0, state, node
    if symbol == tables.whole[SPACE]:
        gain = end_word(i, entries, reals, counters, tables)
        return gain > -math.inf, gain, entries[i, LM_AFTER], 0
    ahead, before = tables.lexicon[4], node
    node = _step(tables, node, symbol)
    if node != OUTSIDE:
        return True, ahead[node] - ahead[before], state, node
    gain = tables.real[UNKNOWN_LETTER]
    if before != OUTSIDE:
        gain += tables.real[UNKNOWN_SCORE] - ahead[before]
    return tables.whole[CLOSED] == 0, gain, state, node


@inlined
def end_word(i, entries, reals, counters, tables):  # type: ignore[no-untyped-def]
    """Gain of ending entry i's word here, -inf where it may not; asked once for each prefix."""
    if not math.isnan(reals[i, GAIN_AFTER]):
        return reals[i, GAIN_AFTER]
    node = entries[i, LEX]
    word = tables.lexicon[3][node] if node != OUTSIDE else NONE
    gain, state = 0.0, entries[i, LM]
    if word == NONE and tables.whole[CLOSED]:
        gain = -math.inf
    elif node != 0 or tables.whole[CLOSED]:  # two spaces in a row end no word
        if tables.whole[LM_KIND] == WORDS:
            log_prob, state = advance(tables.lm, state, tables.numbers[word] if word != NONE else UNKNOWN)
            counters[LOOKUPS] += 1
            gain = tables.real[LM_WEIGHT] * log_prob
        gain += tables.real[BONUS]
        if word != NONE:
            gain += tables.boosts[word]
        elif node != OUTSIDE:  # who left the lexicon has paid already
            gain += tables.real[UNKNOWN_SCORE]
        if node != OUTSIDE:  # the true score comes in place of what was hoped for
            gain -= tables.lexicon[4][node]
    reals[i, GAIN_AFTER], entries[i, LM_AFTER] = gain, state
    return gain


@inlined
def _cannot_end(i, chance, least, entries, reals, tables):  # type: ignore[no-untyped-def]
    """Whether a space behind entry i falls below `least` whatever the language model says; spares asking it."""
    if not math.isnan(reals[i, GAIN_AFTER]):
        return False
    node = entries[i, LEX]
    hoped = tables.lexicon[4][node] if node != OUTSIDE else 0.0
    return chance * math.exp(tables.real[MOST_AT_END] - hoped) < least


@inlined
def _step(tables, node, token):  # type: ignore[no-untyped-def]
    if node == OUTSIDE:
        return OUTSIDE
    first, tokens, children, _, _ = tables.lexicon
    arc = find_arc(tokens, first[node], first[node + 1], token)
    return children[arc] if arc >= 0 else OUTSIDE


@compiled
def _select(scores, count, top, width, floor, kept):  # type: ignore[no-untyped-def]
    """Fills `kept` with the numbers of the `width` best that are not below the floor, of equals the first; how many."""
    if top <= 0.0:
        return 0
    least, over, left = top * floor, 0, 0
    for number in range(count):
        over += scores[number] >= least
    spare = width
    if over > width:
        least = np.partition(scores[:count], count - width)[count - width]
        for number in range(count):
            spare -= scores[number] > least
    for number in range(count):
        if scores[number] > least or (scores[number] == least and spare > 0 and scores[number] > 0.0):
            if scores[number] == least:
                spare -= 1
            kept[left] = number
            left += 1
    return left


@inlined
def _stay(  # type: ignore[no-untyped-def]
    i, place, frame, chances, entries, reals, nodes, runs, peaks, counters, links, next_entries, next_reals
):
    """Best alignments of an entry that stays: the blank behind either ending; the label goes on, or begins anew."""
    if reals[i, BEST_BLANK] >= reals[i, BEST_LABEL]:
        next_entries[place, RUNS_BLANK] = entries[i, RUNS_BLANK]
        next_reals[place, BEST_BLANK] = reals[i, BEST_BLANK] + frame[BLANK]
    else:
        next_entries[place, RUNS_BLANK] = _close(i, entries, reals, runs, peaks, counters, links)
        next_reals[place, BEST_BLANK] = reals[i, BEST_LABEL] + frame[BLANK]
    symbol = nodes[entries[i, NODE], SYMBOL]
    if symbol == ROOT or chances[symbol] == 0.0:
        next_reals[place, BEST_LABEL] = -math.inf
        return
    on = reals[i, BEST_LABEL] + frame[symbol]
    next_reals[place, BEST_LABEL] = on
    next_entries[place, END] = counters[FRAME] + 1
    next_reals[place, PEAK] = max(reals[i, PEAK], frame[symbol])
    parent = links[i, FROM]
    if parent != NONE and _before(parent, symbol, entries, reals, nodes) + frame[symbol] > on:
        _start_run(
            parent, place, symbol, frame, entries, reals, nodes, runs, peaks, counters, links, next_entries, next_reals
        )


@inlined
def _before(i, symbol, entries, reals, nodes):  # type: ignore[no-untyped-def]
    """Log of the best alignment of entry i that `symbol` may follow."""
    if nodes[entries[i, NODE], SYMBOL] == symbol:
        return reals[i, BEST_BLANK]
    return max(reals[i, BEST_BLANK], reals[i, BEST_LABEL])


@inlined
def _start_run(  # type: ignore[no-untyped-def]
    i, place, symbol, frame, entries, reals, nodes, runs, peaks, counters, links, next_entries, next_reals
):
    """A new run of `symbol` behind the best alignment of entry i."""
    best = _before(i, symbol, entries, reals, nodes)
    if best == reals[i, BEST_BLANK]:
        next_entries[place, RUNS_LABEL] = entries[i, RUNS_BLANK]
    else:
        next_entries[place, RUNS_LABEL] = _close(i, entries, reals, runs, peaks, counters, links)
    t = counters[FRAME]
    next_entries[place, START], next_entries[place, END] = t, t + 1
    next_reals[place, PEAK], next_reals[place, BEST_LABEL] = frame[symbol], best + frame[symbol]


@inlined
def _close(i, entries, reals, runs, peaks, counters, links):  # type: ignore[no-untyped-def]
    """The chain of runs of entry i whose last label ends here."""
    if links[i, CLOSED_RUN] == NONE:
        number = counters[RUNS]
        counters[RUNS] += 1
        runs[number, BEFORE] = entries[i, RUNS_LABEL]
        runs[number, RUN_START], runs[number, RUN_END] = entries[i, START], entries[i, END]
        peaks[number] = reals[i, PEAK]
        links[i, CLOSED_RUN] = number
    return links[i, CLOSED_RUN]


@inlined
def _child(node, symbol, nodes, counters):  # type: ignore[no-untyped-def]
    """The child of a node by a symbol, made if there is none."""
    child = nodes[node, CHILD]
    while child != NONE:
        if nodes[child, SYMBOL] == symbol:
            return child
        child = nodes[child, SIBLING]
    child = counters[NODES]
    counters[NODES] += 1
    nodes[child, PARENT], nodes[child, SYMBOL] = node, symbol
    nodes[child, CHILD], nodes[child, SIBLING], nodes[child, STAMP] = NONE, nodes[node, CHILD], NONE
    nodes[node, CHILD] = child
    return child


@compiled
def compact(state):  # type: ignore[no-untyped-def]
    """The same state without the nodes and runs that no entry leads back to."""
    entries, reals, nodes, runs, peaks, counters, scale = state
    keep_node = np.zeros(counters[NODES], np.bool_)
    keep_run = np.zeros(counters[RUNS], np.bool_)
    keep_node[0] = True
    for i in range(counters[ENTRIES]):
        node = entries[i, NODE]
        while not keep_node[node]:
            keep_node[node] = True
            node = nodes[node, PARENT]
        for column in (RUNS_BLANK, RUNS_LABEL):
            run = entries[i, column]
            while run != NONE and not keep_run[run]:
                keep_run[run] = True
                run = runs[run, BEFORE]
    new_node, new_run = np.cumsum(keep_node) - 1, np.cumsum(keep_run) - 1
    next_nodes = np.full((2 * keep_node.sum() + 256, 6), NONE, np.int32)
    for node in range(counters[NODES]):  # parents come before their children
        if keep_node[node]:
            here = new_node[node]
            next_nodes[here, SYMBOL] = nodes[node, SYMBOL]
            if node:
                parent = new_node[nodes[node, PARENT]]
                next_nodes[here, PARENT] = parent
                next_nodes[here, SIBLING] = next_nodes[parent, CHILD]
                next_nodes[parent, CHILD] = here
    next_runs = np.zeros((2 * keep_run.sum() + 256, 3), np.int32)
    next_peaks = np.zeros(len(next_runs))
    for run in range(counters[RUNS]):
        if keep_run[run]:
            here, before = new_run[run], runs[run, BEFORE]
            next_runs[here, BEFORE] = new_run[before] if before != NONE else NONE
            next_runs[here, RUN_START], next_runs[here, RUN_END] = runs[run, RUN_START], runs[run, RUN_END]
            next_peaks[here] = peaks[run]
    for i in range(counters[ENTRIES]):
        entries[i, NODE] = new_node[entries[i, NODE]]
        for column in (RUNS_BLANK, RUNS_LABEL):
            if entries[i, column] != NONE:
                entries[i, column] = new_run[entries[i, column]]
    counters[NODES], counters[RUNS] = keep_node.sum(), keep_run.sum()
    return entries, reals, next_nodes, next_runs, next_peaks, counters, scale


@compiled
def final_gains(state, tables, sentence_end):  # type: ignore[no-untyped-def]
    """(N,) what each entry gains when the utterance ends here: its last word, and </s>; -inf where no word may end."""
    entries, reals, _, _, _, counters, _ = state
    gains = np.zeros(counters[ENTRIES])
    for i in range(counters[ENTRIES]):
        after = entries[i, LM]
        if entries[i, LEX] != 0 and tables.whole[SPACE] >= 0 and tables.whole[LM_KIND] != TOKENS:
            gains[i] = end_word(i, entries, reals, counters, tables)
            after = entries[i, LM_AFTER]
        if tables.whole[LM_KIND] != NO_LM and sentence_end >= 0 and gains[i] > -math.inf:
            log_prob, _ = advance(tables.lm, after, sentence_end)
            counters[LOOKUPS] += 1
            gains[i] += tables.real[LM_WEIGHT] * log_prob
    return gains


@compiled
def tokens(nodes, node):  # type: ignore[no-untyped-def]
    """(L,) the labels of a prefix, from the node of its last one."""
    count, last = 0, node
    while node != 0:
        count += 1
        node = nodes[node, PARENT]
    found = np.empty(count, np.int64)
    while last != 0:
        count -= 1
        found[count] = nodes[last, SYMBOL]
        last = nodes[last, PARENT]
    return found


@compiled
def alignment(state, place):  # type: ignore[no-untyped-def]
    """First frames, frames behind the last, and logs of the peaks, (L,) each, of the best alignment of an entry."""
    entries, reals, _, runs, peaks, _, _ = state
    run, open_ = entries[place, RUNS_BLANK], 0
    if reals[place, BEST_BLANK] < reals[place, BEST_LABEL]:
        run, open_ = entries[place, RUNS_LABEL], 1  # the last label's run is not closed yet
    count, last = open_, run
    while run != NONE:
        count += 1
        run = runs[run, BEFORE]
    starts, ends, highest = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    if open_:
        count -= 1
        starts[count], ends[count], highest[count] = entries[place, START], entries[place, END], reals[place, PEAK]
    while last != NONE:
        count -= 1
        starts[count], ends[count], highest[count] = runs[last, RUN_START], runs[last, RUN_END], peaks[last]
        last = runs[last, BEFORE]
    return starts, ends, highest


@compiled
def _grown(values, size):  # type: ignore[no-untyped-def]
    larger = np.empty(size, values.dtype)
    larger[: len(values)] = values
    return larger


@compiled
def _grown_rows(values, size):  # type: ignore[no-untyped-def]
    larger = np.full((size, values.shape[1]), NONE, values.dtype)
    larger[: len(values)] = values
    return larger
