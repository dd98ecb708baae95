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

import numpy as np
from numba import njit

from ds2.decoder.ngram import advance, find_arc

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
# Columns of a run
BEFORE, RUN_START, RUN_END = range(3)
# Counters
ENTRIES, NODES, RUNS, FRAME, LOOKUPS = range(5)
# Settings
WIDTH, MAX_SYMBOLS, SPACE, CLOSED, LM_KIND = range(5)
CUMULATIVE, THRESHOLD, LM_WEIGHT, BONUS, UNKNOWN_SCORE, UNKNOWN_LETTER, SKIP, MOST, MOST_AT_END = range(9)


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def decode(state, frames, whole, real, lm, lexicon, boosts, numbers):  # type: ignore[no-untyped-def]
    """Moves a stream on by (T, V) log-probabilities; returns the new state.

    Args:
        whole, real: settings, in the order of the constants above; MOST is what one label can gain at most, and
            MOST_AT_END what the end of a word can, beyond what was hoped for at its beginning.
        lm: arrays of an NGram. lexicon: arrays of a Lexicon, and what (N,) the best single word below each node gains,
            which a beginning of a word is given in advance. boosts: (words,) of the lexicon.
            numbers: the language model's number of each word of the lexicon, or, without one, of each token; -1: none.
    """
    entries, reals, nodes, runs, peaks, counters, scale = state
    outputs = frames.shape[1]
    chosen = np.empty(outputs, np.int64)
    chances = np.zeros(outputs)
    active = np.full(outputs, NONE)  # entry of the child of the present entry by each symbol
    floor = math.exp(-real[THRESHOLD])
    free = math.exp(real[MOST])
    capacity = 256
    new_parent, new_symbol = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    new_lm, new_lex = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    new_chance, new_gains = np.empty(capacity), np.empty(capacity)
    # What a frame needs is allocated once, and grows: at some 10 us a frame allocation would be half of the time.
    size = len(entries)
    stay_blank, stay_label = np.empty(size), np.empty(size)
    from_parent, closed = np.empty(size, np.int64), np.empty(size, np.int64)
    eldest, younger = np.empty(size, np.int64), np.empty(size, np.int64)  # child entries of an entry, chained
    next_entries, next_reals = np.empty((size, 8), np.int64), np.empty((size, 7))
    scores, kept = np.empty(size), np.empty(size, np.int64)
    for row in range(frames.shape[0]):
        frame, t, count = frames[row], counters[FRAME], counters[ENTRIES]
        counters[FRAME] += 1
        blank = math.exp(frame[BLANK])
        symbols = 0
        if blank < real[SKIP]:
            symbols = _choose(frame, whole, real, chosen, chances)
        # Entries that stay
        if count > len(stay_blank):
            size = 2 * count
            stay_blank, stay_label = np.empty(size), np.empty(size)
            from_parent, closed = np.empty(size, np.int64), np.empty(size, np.int64)
            eldest, younger = np.empty(size, np.int64), np.empty(size, np.int64)
        best = 0.0
        for i in range(count):
            from_parent[i] = closed[i] = eldest[i] = younger[i] = NONE
            symbol = nodes[entries[i, NODE], SYMBOL]
            stay_blank[i] = (reals[i, BY_BLANK] + reals[i, BY_LABEL]) * blank
            stay_label[i] = reals[i, BY_LABEL] * chances[symbol] if symbol != ROOT else 0.0
            best = max(best, stay_blank[i] + stay_label[i])
            nodes[entries[i, NODE], SLOT], nodes[entries[i, NODE], STAMP] = i, t
        for j in range(count):  # entries that are children of entries
            parent = nodes[entries[j, NODE], PARENT]
            if parent != NONE and nodes[parent, STAMP] == t:
                i = nodes[parent, SLOT]
                younger[j], eldest[i] = eldest[i], j
        # Entries with one more label
        new = 0
        for i in range(count):
            node = entries[i, NODE]
            j = eldest[i]
            while j != NONE:
                active[nodes[entries[j, NODE], SYMBOL]] = j
                j = younger[j]
            both = reals[i, BY_BLANK] + reals[i, BY_LABEL]
            for k in range(symbols):
                symbol = chosen[k]
                chance = (reals[i, BY_BLANK] if symbol == nodes[node, SYMBOL] else both) * chances[symbol]
                if chance <= 0.0:
                    continue
                j = active[symbol]
                if j != NONE:
                    change = reals[j, GAINS] - reals[i, GAINS]
                    stay_label[j] += chance * math.exp(change) if change != 0.0 else chance
                    from_parent[j] = i
                    continue
                if symbol != whole[SPACE]:
                    if chance * free < best * floor:
                        continue
                elif _cannot_end(i, chance, best * floor, entries, reals, real, lexicon):
                    continue
                allowed, gain, next_lm, next_lex = _extend(
                    i, symbol, entries, reals, counters, whole, real, lm, lexicon, boosts, numbers
                )
                if not allowed:
                    continue
                if gain != 0.0:
                    chance *= math.exp(gain)
                if chance < best * floor or chance <= 0.0:
                    continue
                if new == capacity:
                    capacity *= 2
                    new_parent, new_symbol = _grown(new_parent, capacity), _grown(new_symbol, capacity)
                    new_lm, new_lex = _grown(new_lm, capacity), _grown(new_lex, capacity)
                    new_chance, new_gains = _grown(new_chance, capacity), _grown(new_gains, capacity)
                new_parent[new], new_symbol[new], new_lm[new], new_lex[new] = i, symbol, next_lm, next_lex
                new_chance[new], new_gains[new] = chance, reals[i, GAINS] + gain
                new += 1
            j = eldest[i]
            while j != NONE:
                active[nodes[entries[j, NODE], SYMBOL]] = NONE
                j = younger[j]
        # The best of both kinds
        if count + new > len(scores):
            scores, kept = np.empty(2 * (count + new)), np.empty(2 * (count + new), np.int64)
        top = 0.0
        for i in range(count):
            scores[i] = stay_blank[i] + stay_label[i]
            top = max(top, scores[i])
        for i in range(new):
            scores[count + i] = new_chance[i]
            top = max(top, new_chance[i])
        left = _select(scores[: count + new], top, whole[WIDTH], floor, kept)
        if left > len(next_entries):
            next_entries, next_reals = np.empty((2 * left, 8), np.int64), np.empty((2 * left, 7))
        if counters[RUNS] + count > len(runs):
            runs = _grown_rows(runs, 2 * len(runs) + count)
            peaks = _grown(peaks, len(runs))
        if counters[NODES] + left > len(nodes):
            nodes = _grown_rows(nodes, 2 * len(nodes) + left)
        for place in range(left):
            number = kept[place]
            if number < count:
                for column in range(8):
                    next_entries[place, column] = entries[number, column]
                for column in range(7):
                    next_reals[place, column] = reals[number, column]
                next_reals[place, BY_BLANK] = stay_blank[number] / top
                next_reals[place, BY_LABEL] = stay_label[number] / top
                _stay(number, place, from_parent[number], frame, chances, t, entries, reals, nodes, runs, peaks,
                      counters, closed, next_entries, next_reals)  # fmt: skip
            else:
                new_number = number - count
                i, symbol = new_parent[new_number], new_symbol[new_number]
                next_entries[place, NODE] = _child(entries[i, NODE], symbol, nodes, counters)
                next_entries[place, LM], next_entries[place, LEX] = new_lm[new_number], new_lex[new_number]
                next_reals[place, BY_BLANK], next_reals[place, BY_LABEL] = 0.0, new_chance[new_number] / top
                next_reals[place, GAINS] = new_gains[new_number]
                next_reals[place, GAIN_AFTER] = math.nan
                next_reals[place, BEST_BLANK], next_entries[place, RUNS_BLANK] = -math.inf, NONE
                _start_run(i, place, symbol, frame, t, entries, reals, nodes, runs, peaks, counters, closed,
                           next_entries, next_reals)  # fmt: skip
        entries, next_entries = next_entries, entries
        reals, next_reals = next_reals, reals
        counters[ENTRIES] = left
        if left:
            scale[0] += math.log(top)
        for k in range(symbols):
            chances[chosen[k]] = 0.0
    return entries, reals, nodes, runs, peaks, counters, scale


@njit(nogil=True, cache=True, inline="always")
def _choose(frame, whole, real, chosen, chances):  # type: ignore[no-untyped-def]
    """The labels worth trying: the fewest whose probability, with the blank's, reaches the cumulative one, no more than
    MAX_SYMBOLS, and the space. Fills `chosen` and their `chances`; returns how many."""
    outputs, target = len(frame), real[CUMULATIVE]
    if target < 1.0 and math.exp(frame[BLANK]) >= target and whole[SPACE] < 0:
        return 0
    # What lies below this cannot matter: all of it together is less than what may be missing.
    least = math.log((1.0 - target) / outputs) if target < 1.0 else -math.inf
    found = 0
    for symbol in range(1, outputs):
        if frame[symbol] > least:
            chosen[found] = symbol
            found += 1
    if found > FEW:
        chosen[:found] = chosen[:found][np.argsort(-frame[chosen[:found]], kind="mergesort")]
    else:
        for place in range(1, found):  # insertion: numba's sorts cost microseconds
            symbol = chosen[place]
            while place > 0 and frame[chosen[place - 1]] < frame[symbol]:
                chosen[place] = chosen[place - 1]
                place -= 1
            chosen[place] = symbol
    reached, count, blank_waits = 0.0, 0, 1
    seen_space = whole[SPACE] < 0
    while count < found and count + 1 - blank_waits < whole[MAX_SYMBOLS] and (target >= 1.0 or reached < target):
        symbol = chosen[count]
        if blank_waits and frame[BLANK] >= frame[symbol]:  # the blank has its place among them
            reached += math.exp(frame[BLANK])
            blank_waits = 0
            continue
        chances[symbol] = math.exp(frame[symbol])
        reached += chances[symbol]
        seen_space = seen_space or symbol == whole[SPACE]
        count += 1
    if not seen_space and frame[whole[SPACE]] > -math.inf:
        chosen[count], chances[whole[SPACE]] = whole[SPACE], math.exp(frame[whole[SPACE]])
        count += 1
    return count


@njit(nogil=True, cache=True, inline="always")
def _extend(i, symbol, entries, reals, counters, whole, real, lm, lexicon, boosts, numbers):  # type: ignore[no-untyped-def]
    """(allowed, gain, state of the language model, node of the lexicon) of entry i with one more label."""
    state, node = entries[i, LM], entries[i, LEX]
    if whole[LM_KIND] == TOKENS:
        if numbers[symbol] == NONE:
            return True, 0.0, state, node
        log_prob, state = advance(lm, state, numbers[symbol])
        counters[LOOKUPS] += 1
        return True, real[LM_WEIGHT] * log_prob + real[BONUS], state, node
    if whole[SPACE] < 0 or len(lexicon[3]) == 1:
        return True, 0.0, state, node
    if symbol == whole[SPACE]:
        gain = end_word(i, entries, reals, counters, whole, real, lm, lexicon, boosts, numbers)
        return gain > -math.inf, gain, entries[i, LM_AFTER], 0
    ahead, before = lexicon[4], node
    node = _step(lexicon, node, symbol)
    if node != OUTSIDE:
        return True, ahead[node] - ahead[before], state, node
    gain = real[UNKNOWN_LETTER]
    if before != OUTSIDE:
        gain += real[UNKNOWN_SCORE] - ahead[before]
    return whole[CLOSED] == 0, gain, state, node


@njit(nogil=True, cache=True, inline="always")
def end_word(i, entries, reals, counters, whole, real, lm, lexicon, boosts, numbers):  # type: ignore[no-untyped-def]
    """Gain of ending entry i's word here, -inf where it may not; asked once for each prefix."""
    if not math.isnan(reals[i, GAIN_AFTER]):
        return reals[i, GAIN_AFTER]
    node = entries[i, LEX]
    word = lexicon[3][node] if node != OUTSIDE else NONE
    gain, state = 0.0, entries[i, LM]
    if word == NONE and whole[CLOSED]:
        gain = -math.inf
    elif node != 0 or whole[CLOSED]:  # two spaces in a row end no word
        if whole[LM_KIND] == WORDS:
            log_prob, state = advance(lm, state, numbers[word] if word != NONE else UNKNOWN)
            counters[LOOKUPS] += 1
            gain = real[LM_WEIGHT] * log_prob
        gain += real[BONUS]
        if word != NONE:
            gain += boosts[word]
        elif node != OUTSIDE:  # who left the lexicon has paid already
            gain += real[UNKNOWN_SCORE]
        if node != OUTSIDE:  # the true score comes in place of what was hoped for
            gain -= lexicon[4][node]
    reals[i, GAIN_AFTER], entries[i, LM_AFTER] = gain, state
    return gain


@njit(nogil=True, cache=True, inline="always")
def _cannot_end(i, chance, least, entries, reals, real, lexicon):  # type: ignore[no-untyped-def]
    """Whether a space behind entry i falls below `least` whatever the language model says; spares asking it."""
    if not math.isnan(reals[i, GAIN_AFTER]):
        return False
    node = entries[i, LEX]
    hoped = lexicon[4][node] if node != OUTSIDE else 0.0
    return chance * math.exp(real[MOST_AT_END] - hoped) < least


@njit(nogil=True, cache=True, inline="always")
def _step(lexicon, node, token):  # type: ignore[no-untyped-def]
    if node == OUTSIDE:
        return OUTSIDE
    first, tokens, children, _, _ = lexicon
    arc = find_arc(tokens, first[node], first[node + 1], token)
    return children[arc] if arc >= 0 else OUTSIDE


@njit(nogil=True, cache=True, inline="always")
def _select(scores, top, width, floor, kept):  # type: ignore[no-untyped-def]
    """Fills `kept` with the numbers of the `width` best that are not below the floor, of equals the first; how many."""
    if top <= 0.0:
        return 0
    least, over, count = top * floor, 0, 0
    for score in scores:
        over += score >= least
    spare = width
    if over > width:
        least = np.partition(scores, len(scores) - width)[len(scores) - width]
        for score in scores:
            spare -= score > least
    for number in range(len(scores)):
        if scores[number] > least or (scores[number] == least and spare > 0 and scores[number] > 0.0):
            if scores[number] == least:
                spare -= 1
            kept[count] = number
            count += 1
    return count


@njit(nogil=True, cache=True, inline="always")
def _stay(  # type: ignore[no-untyped-def]
    i, place, parent, frame, chances, t, entries, reals, nodes, runs, peaks, counters, closed, next_entries, next_reals
):
    """Best alignments of an entry that stays: the blank behind either ending; the label goes on, or begins anew."""
    if reals[i, BEST_BLANK] >= reals[i, BEST_LABEL]:
        next_entries[place, RUNS_BLANK] = entries[i, RUNS_BLANK]
        next_reals[place, BEST_BLANK] = reals[i, BEST_BLANK] + frame[BLANK]
    else:
        next_entries[place, RUNS_BLANK] = _close(i, entries, reals, runs, peaks, counters, closed)
        next_reals[place, BEST_BLANK] = reals[i, BEST_LABEL] + frame[BLANK]
    symbol = nodes[entries[i, NODE], SYMBOL]
    if symbol == ROOT or chances[symbol] == 0.0:
        next_reals[place, BEST_LABEL] = -math.inf
        return
    on = reals[i, BEST_LABEL] + frame[symbol]
    next_reals[place, BEST_LABEL] = on
    next_entries[place, END] = t + 1
    next_reals[place, PEAK] = max(reals[i, PEAK], frame[symbol])
    if parent != NONE and _before(parent, symbol, entries, reals, nodes) + frame[symbol] > on:
        _start_run(parent, place, symbol, frame, t, entries, reals, nodes, runs, peaks, counters, closed, next_entries,
                   next_reals)  # fmt: skip


@njit(nogil=True, cache=True, inline="always")
def _before(i, symbol, entries, reals, nodes):  # type: ignore[no-untyped-def]
    """Log of the best alignment of entry i that `symbol` may follow."""
    if nodes[entries[i, NODE], SYMBOL] == symbol:
        return reals[i, BEST_BLANK]
    return max(reals[i, BEST_BLANK], reals[i, BEST_LABEL])


@njit(nogil=True, cache=True, inline="always")
def _start_run(  # type: ignore[no-untyped-def]
    i, place, symbol, frame, t, entries, reals, nodes, runs, peaks, counters, closed, next_entries, next_reals
):
    """A new run of `symbol` behind the best alignment of entry i."""
    best = _before(i, symbol, entries, reals, nodes)
    if best == reals[i, BEST_BLANK]:
        next_entries[place, RUNS_LABEL] = entries[i, RUNS_BLANK]
    else:
        next_entries[place, RUNS_LABEL] = _close(i, entries, reals, runs, peaks, counters, closed)
    next_entries[place, START], next_entries[place, END] = t, t + 1
    next_reals[place, PEAK], next_reals[place, BEST_LABEL] = frame[symbol], best + frame[symbol]


@njit(nogil=True, cache=True, inline="always")
def _close(i, entries, reals, runs, peaks, counters, closed):  # type: ignore[no-untyped-def]
    """The chain of runs of entry i whose last label ends here."""
    if closed[i] == NONE:
        number = counters[RUNS]
        counters[RUNS] += 1
        runs[number, BEFORE] = entries[i, RUNS_LABEL]
        runs[number, RUN_START], runs[number, RUN_END] = entries[i, START], entries[i, END]
        peaks[number] = reals[i, PEAK]
        closed[i] = number
    return closed[i]


@njit(nogil=True, cache=True, inline="always")
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


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def final_gains(state, whole, real, lm, lexicon, boosts, numbers, sentence_end):  # type: ignore[no-untyped-def]
    """(N,) what each entry gains when the utterance ends here: its last word, and </s>; -inf where no word may end."""
    entries, reals, _, _, _, counters, _ = state
    gains = np.zeros(counters[ENTRIES])
    for i in range(counters[ENTRIES]):
        after = entries[i, LM]
        if entries[i, LEX] != 0 and whole[SPACE] >= 0 and whole[LM_KIND] != TOKENS:
            gains[i] = end_word(i, entries, reals, counters, whole, real, lm, lexicon, boosts, numbers)
            after = entries[i, LM_AFTER]
        if whole[LM_KIND] != NO_LM and sentence_end >= 0 and gains[i] > -math.inf:
            log_prob, _ = advance(lm, after, sentence_end)
            counters[LOOKUPS] += 1
            gains[i] += real[LM_WEIGHT] * log_prob
    return gains


@njit(nogil=True, cache=True)
def _grown(values, size):  # type: ignore[no-untyped-def]
    larger = np.empty(size, values.dtype)
    larger[: len(values)] = values
    return larger


@njit(nogil=True, cache=True)
def _grown_rows(values, size):  # type: ignore[no-untyped-def]
    larger = np.full((size, values.shape[1]), NONE, values.dtype)
    larger[: len(values)] = values
    return larger
