"""The epoch whose network a training keeps as its best."""

from collections.abc import Sequence

from ds2.train.metrics import Epoch


def selection_error(epoch: Epoch) -> tuple[float, float]:
    """The smaller, the better the model: errors in phones where it learns them (they are searched), or in words."""
    return epoch["per" if "per" in epoch else "wer"], epoch["dev_loss"]


def best_of(history: Sequence[Epoch]) -> Epoch:
    """The best epoch, the first of equal ones, among those that were measured as the last one was."""
    return min((epoch for epoch in history if ("per" in epoch) == ("per" in history[-1])), key=selection_error)


def best_line(history: Sequence[Epoch], start: Sequence[Epoch]) -> str:
    """Which epoch is the best, and whether it is better than the model that training began from, if there is one."""
    kept, rate = best_of(history), "PER" if "per" in history[-1] else "WER"
    line = f"epoch {kept['epoch']} of {len(history)} is the best on dev, by {rate}"
    if all(selection_error(kept) < selection_error(before) for before in start if ("per" in before) == ("per" in kept)):
        return line
    return f"{line}, but no better than epoch 0, the model that training began from"
