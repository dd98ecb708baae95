"""metrics.jsonl: the figures of every epoch of a run, one JSON object a line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ds2.utils.errors import InputError
from ds2.utils.files import numbered_lines, write_text

FIGURES = {"epoch", "loss", "dev_loss", "wer", "cer", "learning_rate", "seconds", "utterances_per_second"}

Epoch = dict[str, Any]  # one epoch's figures: those of FIGURES, step, skipped, and per where phones are learnt


def write_metrics(path: Path, history: Sequence[Epoch]) -> None:
    """Writes all epochs anew, so that a resumed run neither omits nor repeats one."""
    write_text(path, "".join(json.dumps(epoch) + "\n" for epoch in history))


def read_metrics(path: Path) -> list[Epoch]:
    """Reads the epochs; omits a last line that is cut off, as in a copy of a run that is still training.

    Raises:
        InputError: another line holds something else.
    """
    lines = list(numbered_lines(path))
    history = []
    for number, line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
            if number == lines[-1][0]:
                break
        if not (isinstance(record, dict) and record.keys() >= FIGURES and _has_figures(record)):
            raise InputError(f"{path}:{number}: not the figures of an epoch; remove the line")
        history.append(record)
    return history


def _has_figures(record: Epoch) -> bool:
    return all(type(record[name]) in (int, float) for name in (*FIGURES, *({"per"} & record.keys())))
