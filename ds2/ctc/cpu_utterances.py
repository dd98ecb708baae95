"""CTC on the CPU, one utterance after another: in linear space, or in log space where that could underflow."""

import math

from ds2.ctc.kernel_types import UtteranceArrays
from ds2.ctc.linear_space import ctc_linear_space
from ds2.ctc.log_space import ctc_log_space
from ds2.ctc.softmax import softmax
from ds2.ctc.workspace import workspace_for
from ds2.utils.jit import njit


@njit(nogil=True, error_model="numpy")
def ctc_utterances(order, batch, room):  # type: ignore[no-untyped-def]
    """Computes the losses (nats) of the utterances in `order`, and the weighted gradients, into the batch.

    A loss is inf, with gradient 0, where the labels do not fit into the frames.

    Args:
        room: float64 values that alpha may take; exceeded where a few columns of it take more.
    """
    # One workspace, large enough for all of them.
    longest, most = 1, 0
    for b in order:
        longest, most = max(longest, batch.input_lengths[b]), max(most, batch.target_lengths[b])
    workspace = workspace_for(longest, most, batch.outputs, batch.logits, room)
    for b in order:
        utterance = _utterance(batch, b)
        # Linear space is fast and says when it may have underflowed; log space is always right.
        loss, sure = ctc_linear_space(utterance, workspace)
        if not sure:
            softmax(utterance, workspace.normalizers, workspace.buffer)
            loss = ctc_log_space(utterance, workspace.normalizers)
        batch.losses[b] = loss
        # Frames beyond the utterance have no gradient; nor has any frame of labels that do not fit.
        if len(batch.gradient):
            for t in range(0 if loss == math.inf else utterance.frames, batch.frames):
                row = utterance.first + t * batch.stride
                batch.gradient[row : row + batch.outputs] = 0.0


@njit(nogil=True)
def _utterance(batch, b):  # type: ignore[no-untyped-def]
    first_label = batch.target_starts[b]
    labels = batch.targets[first_label : first_label + batch.target_lengths[b]]
    return UtteranceArrays(
        batch.logits, batch.gradient, batch.starts[b], batch.stride, batch.outputs, batch.input_lengths[b], labels,
        batch.blank, batch.weights[b],
    )  # fmt: skip
