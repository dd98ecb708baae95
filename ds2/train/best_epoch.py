"""The epoch whose network a training keeps as its best."""

from collections.abc import Sequence

from ds2.train.metrics import Epoch


def selection_error(epoch: Epoch) -> tuple[float, float]:
    """The smaller, the better the model: errors in phones where it learns them (they are searched), or in words."""
    return epoch["per" if "per" in epoch else "wer"], epoch["dev_loss"]


def best_of(history: Sequence[Epoch]) -> Epoch:
    """The best epoch, the first of equal ones, among those that were measured as the last one was."""
    return min((epoch for epoch in history if ("per" in epoch) == ("per" in history[-1])), key=selection_error)
