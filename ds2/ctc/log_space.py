"""CTC in log space and float64: slow, for any input. The kernels in linear space fall back to it."""

import math

import numpy as np

from ds2.utils.jit import njit


@njit(nogil=True)
def _log_add(a, b):  # type: ignore[no-untyped-def]
    """log(exp a + exp b); -inf adds nothing, NaN stays."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@njit(nogil=True, error_model="numpy")
def ctc_log_space(utterance, normalizers):  # type: ignore[no-untyped-def]
    """Loss in nats of an utterance that fits into its frames.

    The gradient holds weight * softmax and becomes weight times the gradient. Where no path has a probability above 0
    the loss is inf and the gradient left as it is; NaN among the scores gives NaN.
    """
    labels, frames, gradient = utterance.labels, utterance.frames, utterance.gradient
    states = 2 * len(labels) + 1
    # alpha: the log-probability of all ways from the start to state s (even: a blank, odd: a label) at frame t.
    alpha = np.full((frames, states), -math.inf)
    for t in range(frames):
        for s in range(states):
            before = 0.0 if t == 0 and s < 2 else -math.inf
            if t > 0:
                before = alpha[t - 1, s]
                if s >= 1:
                    before = _log_add(before, alpha[t - 1, s - 1])
                if _skips(labels, s):
                    before = _log_add(before, alpha[t - 1, s - 2])
            alpha[t, s] = before + _log_probability(utterance, t, s, normalizers)
    # The labels' log-probability: a path ends in the last blank or in the last label.
    total = alpha[-1, states - 1]
    if states > 1:
        total = _log_add(total, alpha[-1, states - 2])
    if len(gradient) == 0 or total == -math.inf:
        return -total

    # beta: of all ways from there to the end. Times alpha it gives the posterior of the state, which its output loses.
    beta, new = np.full(states, -math.inf), np.full(states, -math.inf)
    for t in range(frames - 1, -1, -1):
        for s in range(states):
            after = 0.0 if t == frames - 1 and s >= states - 2 else -math.inf
            if t < frames - 1:
                after = beta[s]
                if s + 1 < states:
                    after = _log_add(after, beta[s + 1])
                if s + 2 < states and _skips(labels, s + 2):
                    after = _log_add(after, beta[s + 2])
            posterior = math.exp(alpha[t, s] + after - total)
            gradient[_score(utterance, t, s)] -= utterance.weight * posterior
            new[s] = after + _log_probability(utterance, t, s, normalizers)
        beta, new = new, beta
    return -total


@njit(nogil=True)
def _skips(labels, s):  # type: ignore[no-untyped-def]
    """Whether state s, a label, can follow the label before it without a blank."""
    return s % 2 == 1 and s >= 3 and labels[s // 2] != labels[s // 2 - 1]


@njit(nogil=True)
def _score(utterance, t, s):  # type: ignore[no-untyped-def]
    """Index of the score of state s at frame t."""
    output = utterance.labels[s // 2] if s % 2 else utterance.blank
    return utterance.first + t * utterance.stride + output


@njit(nogil=True)
def _log_probability(utterance, t, s, normalizers):  # type: ignore[no-untyped-def]
    return utterance.logits[_score(utterance, t, s)] - normalizers[t]
