"""The distinct outputs of an utterance, its symbols, and their probabilities: equal labels share one exponential."""

from ds2.ctc.softmax import exponentials
from ds2.utils.jit import njit


@njit(nogil=True)
def number_symbols(labels, blank, symbols):  # type: ignore[no-untyped-def]
    """Numbers the outputs that occur, the blank first; returns how many there are."""
    for label in labels:
        symbols.of_output[label] = 0
    symbols.outputs[0], distinct = blank, 1
    for i, label in enumerate(labels):
        if symbols.of_output[label] == 0:
            symbols.of_output[label] = distinct
            symbols.outputs[distinct] = label
            distinct += 1
        symbols.of_label[i] = symbols.of_output[label]
    return distinct


@njit(nogil=True, _nrt=False)
def symbol_probabilities(utterance, trellis, start, size, normalizers):  # type: ignore[no-untyped-def]
    """Probabilities of the symbols at `size` frames from `start` on, in float64 whatever the scores are."""
    logits, outputs, probabilities = utterance.logits, trellis.symbols.outputs, trellis.symbols.probabilities
    distinct = trellis.distinct
    for k in range(size):
        row = utterance.first + (start + k) * utterance.stride
        for symbol in range(distinct):
            probabilities[k, symbol] = logits[row + outputs[symbol]] - normalizers[start + k]
        for symbol in range(distinct, probabilities.shape[1]):
            probabilities[k, symbol] = 0.0
    exponentials(probabilities[:size].reshape(-1))
