"""A corpus from one layout to another."""

import logging
from pathlib import Path

from ds2.data.corpus_rows import measured
from ds2.data.layouts import LAYOUTS, guess_layout
from ds2.utils.errors import InputError
from ds2.utils.files import in_utf8

ANY_NAME = ("nemo", "webdataset")  # hold files whose names are not UTF-8: as JSON escapes, or by number

logger = logging.getLogger(__name__)


def convert(source: Path, target: Path, layout: str, to: str, language: str | None) -> tuple[int, list[str]]:
    """Reads `source`, looks at its audio, and writes `target`.

    Args:
        layout: a name of LAYOUTS; empty: what it looks like.
        language: see `ds2.text.normalize`; None leaves the texts as they are.

    Returns:
        how many utterances were written, and a line for each that was left out.

    Raises:
        InputError: no such layout, a mistake in a table of the source, or nothing in it can be used.
    """
    layout = layout or guess_layout(source)
    if layout not in LAYOUTS:
        raise InputError(f"{layout}: not a known layout; choose one of {', '.join(LAYOUTS)}")
    write = LAYOUTS[to].write if to in LAYOUTS else None
    if write is None:
        why = "this layout can be read, not written" if to in LAYOUTS else "not a known layout"
        written = ", ".join(name for name, each in LAYOUTS.items() if each.write is not None)
        raise InputError(f"{to}: {why}; choose one of {written}")
    audio_folder = target.with_name(f"{target.name.partition('.')[0]}_audio")
    utterances, skipped = measured(LAYOUTS[layout].read(source, audio_folder), language)
    if to not in ANY_NAME:
        odd = [each.audio_path for each in utterances if not in_utf8(each.audio_path)]
        skipped += [f"{path}: its name is not UTF-8, which {to} cannot hold; rename it" for path in odd]
        utterances = [each for each in utterances if in_utf8(each.audio_path)]
    if not utterances:
        raise InputError(f"{source}: no utterance can be used ({skipped[0] if skipped else 'it holds none'})")
    write(target, utterances)
    if lost := LAYOUTS[to].lost(utterances):
        logger.warning("%s has no place for these keys, they are left out: %s", to, ", ".join(sorted(lost)))
    return len(utterances), skipped
