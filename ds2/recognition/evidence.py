"""What speaks for and against each recognised word: numbers from which its confidence is computed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ds2.decoder.hypothesis import Hypothesis
from ds2.lm.ngram import NGram
from ds2.lm.orders import END

FEATURES = (
    "peak",  # mean log-probability of the word's labels at their best frames
    "least_peak",  # that of the worst label
    "share",  # log-odds of the share of the n-best's probability that has the word there
    "margin",  # nats by which the best hypothesis beats the best one without the word
    "entropy",  # of the tokens in the word's frames, nats
    "phone_entropy",  # of the phones, 0 without any
    "spelling",  # nats per token by which the best path beats the word's spelling in its frames
    "lm",  # log-probability of the word after those before it
    "lm_next",  # and of the next word after this one
    "unigram",  # log-probability of the word alone
    "frames",  # log of their number
    "tokens",  # number
    "labels",  # number of frames at which they begin: the phones of a search by phones
)
AROUND = 10  # words on each side, of which the average is evidence too
MARGIN = 2  # frames on each side of a word in which its tokens may lie
LEAST_SHARE = 1e-3  # so that the log-odds are finite
LEAST_PEAK = 1e-9
WORST_SPELLING = -20.0  # nats per token
WORST_LM = -25.0  # nats: for words that the language model excludes


@dataclass(frozen=True)
class Found:
    """The words of a hypothesis: W texts, spans of its tokens, and how they compare with the rest of the n-best."""

    hypothesis: Hypothesis
    words: Sequence[str]
    spans: Sequence[tuple[int, int]]  # (first, past the last) token
    tokens: Sequence[Sequence[int]]  # by which each word is spelt
    shares: Sequence[float]
    margins: Sequence[float] | np.ndarray  # nats


def word_evidence(found: Found, log_probs: np.ndarray, phones: np.ndarray, lm: NGram | None) -> np.ndarray:
    """(T, V) log-probabilities of tokens, (T, P) of phones -> (W, 4 * FEATURES): each word's own features, those of the
    word before and of the word after it, and the average over the words around."""
    if not found.words:
        return np.zeros((0, 4 * len(FEATURES)))
    own = own_evidence(found, log_probs, phones, lm)
    before, after = np.vstack([own[:1], own[:-1]]), np.vstack([own[1:], own[-1:]])
    sums = np.vstack([np.zeros((1, own.shape[1])), np.cumsum(own, 0)])
    places = np.arange(len(own))
    first, last = np.maximum(places - AROUND, 0), np.minimum(places + AROUND + 1, len(own))
    return np.hstack([own, before, after, (sums[last] - sums[first]) / (last - first)[:, None]])


def own_evidence(found: Found, log_probs: np.ndarray, phones: np.ndarray, lm: NGram | None) -> np.ndarray:
    """(T, V), (T, P) -> (W, FEATURES)."""
    hypothesis = found.hypothesis
    peaks = np.log(np.maximum(hypothesis.confidences, LEAST_PEAK))
    frames = [(hypothesis.starts[first], hypothesis.ends[last - 1]) for first, last in found.spans]
    shares = np.clip(found.shares, LEAST_SHARE, 1 - LEAST_SHARE)
    columns = [
        [peaks[first:last].mean() for first, last in found.spans],
        [peaks[first:last].min() for first, last in found.spans],
        np.log(shares / (1 - shares)),
        found.margins,
        entropies(log_probs, frames),
        entropies(phones, frames),
        spelling_scores(log_probs, frames, found.tokens),
        *lm_scores(found.words, lm),
        [math.log(end - start) for start, end in frames],
        [len(tokens) for tokens in found.tokens],
        [len(set(hypothesis.starts[first:last])) for first, last in found.spans],
    ]
    return np.stack([np.asarray(column, np.float64) for column in columns], 1)


def entropies(log_probs: np.ndarray, frames: Sequence[tuple[int, int]]) -> list[float]:
    """(T, V) -> the mean entropy of the frames of each word, nats."""
    total = np.append(0.0, np.cumsum(-(np.exp(log_probs) * np.maximum(log_probs, -1e3)).sum(1)))
    return [(total[end] - total[start]) / (end - start) for start, end in frames]


def lm_scores(words: Sequence[str], lm: NGram | None) -> list[list[float]]:
    """For each word: its log-probability, that of the next word, and that of the word alone; 0 without a model."""
    if lm is None:
        return [[0.0] * len(words)] * 3
    scores, state = [], lm.start
    for word in [*words, END]:
        score, state = lm.advance(state, word)
        scores.append(max(score, WORST_LM))
    single = lm.single_log_probs
    alone = [float(single[lm.index.get(word, 0)]) for word in words]
    return [scores[:-1], scores[1:], alone]


def spelling_scores(
    log_probs: np.ndarray, frames: Sequence[tuple[int, int]], tokens: Sequence[Sequence[int]]
) -> np.ndarray:
    """(T, V) -> (W,) nats per token by which the best path of the frames beats the best one that spells each word.

    All words are aligned at once, frame by frame, over the states of CTC:

        states   _ t _ h _ e _      an alignment may begin and end at any frame of the word, and skip a blank
    """
    behind = log_probs - log_probs.max(1, keepdims=True)
    # Each word may lie a little before or after the frames that the search gave it.
    starts = np.array([max(0, start - MARGIN) for start, _ in frames])
    ends = np.array([min(len(log_probs), end + MARGIN) for _, end in frames])
    counts = np.array([len(each) for each in tokens])
    # The states of all words in one table, blanks at even places; two equal letters need the blank between them.
    states = np.zeros((len(tokens), 2 * counts.max() + 1), np.int64)
    for word, each in enumerate(tokens):
        states[word, 1 : 2 * len(each) : 2] = each
    skips = np.zeros(states.shape, bool)
    skips[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]
    # Each step takes every word one frame on. A path may begin at any frame, so the first label costs nothing before
    # it.
    scores, best = np.full(states.shape, -np.inf), np.full(len(tokens), WORST_SPELLING * counts)
    one, two = scores.copy(), scores.copy()  # those of the state before, and of the one before that
    for step in range((ends - starts).max()):
        frame = np.minimum(starts + step, len(log_probs) - 1)
        one[:, 1:] = scores[:, :-1]
        one[:, 1] = np.maximum(one[:, 1], 0.0)
        np.copyto(two[:, 2:], scores[:, :-2], where=skips[:, 2:])
        scores = np.maximum(np.maximum(scores, one), two) + behind[frame[:, None], states]
        ended = scores[np.arange(len(tokens)), 2 * counts - 1]
        best = np.where(starts + step < ends, np.maximum(best, ended), best)
    scored: np.ndarray = best / counts
    return scored
