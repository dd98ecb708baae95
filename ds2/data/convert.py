"""A corpus from one layout to another."""

import json
import logging
from dataclasses import replace
from pathlib import Path

from ds2.data.corpus_rows import measured
from ds2.data.layouts import LAYOUTS, guess_layout
from ds2.data.layouts.regular_files import name_by_path
from ds2.data.manifest_lines import SURROGATE
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import atomic_write, in_utf8, make_folder, read_text, write_text
from ds2.utils.tar import archive_of, read_member

ANY_NAME = ("nemo", "webdataset")  # hold files whose names are not UTF-8: as JSON escapes, or by number
INSIDE_TABLES = ("parquet",)  # lies the audio, which is written to files
PLAIN_FILES = ("kaldi", "lhotse", "common_voice")  # name files, which their readers open: none inside a tar
OWNER = ".target"  # in a folder of such files: the name of the target that they were made for

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
        ParameterError: the target's name does not end as those of its layout do.
    """
    layout = layout or guess_layout(source)
    if layout not in LAYOUTS:
        raise InputError(f"{layout}: not a known layout; choose one of {', '.join(LAYOUTS)}")
    write = LAYOUTS[to].write if to in LAYOUTS else None
    if write is None:
        why = "this layout can be read, not written" if to in LAYOUTS else "not a known layout"
        written = ", ".join(name for name, each in LAYOUTS.items() if each.write is not None)
        raise InputError(f"{to}: {why}; choose one of {written}")
    if (ends := LAYOUTS[to].ends) and not target.name.endswith(ends):
        names = " or ".join(ends)
        raise ParameterError("output", f"{target}: {to} is known by its ending {names}; name it {target}{ends[0]}")
    audio_folder = target.parent / f"{target.name.removesuffix('.jsonl')}_audio"
    if layout in INSIDE_TABLES:
        _claim(audio_folder, target.name)
    found, skipped = measured(LAYOUTS[layout].read(source, audio_folder), language)
    misfits = [_misfit(each, to) for each in found]
    skipped += filter(None, misfits)
    utterances = [each for each, misfit in zip(found, misfits, strict=True) if not misfit]
    if language is not None:  # each says so, where the layout has a place for it
        named = [replace(each, lang=each.lang or language) for each in utterances]
        utterances = utterances if "lang" in LAYOUTS[to].lost(named) else named
    if not utterances:
        raise InputError(f"{source}: no utterance can be used ({skipped[0] if skipped else 'it holds none'})")
    if to in PLAIN_FILES and any(archive_of(each.audio_path) for each in utterances):
        _claim(audio_folder, target.name)
        utterances = [_outside_archives(each, audio_folder) for each in utterances]
    write(target, utterances)
    if lost := LAYOUTS[to].lost(utterances):
        logger.warning("%s has no place for these keys, they are left out: %s", to, ", ".join(sorted(lost)))
    return len(utterances), skipped


def _claim(folder: Path, target: str) -> None:
    """Makes the folder that holds the audio of a target, and of no other.

    Raises:
        InputError: it holds files that are not the target's.
    """
    make_folder(folder)
    owner, name = folder / OWNER, json.dumps(target)
    if owner.is_file():
        own = read_text(owner) == name
    else:
        own = not any(folder.iterdir())
        if own:
            write_text(owner, name)
    if not own:
        raise InputError(f"{folder}: holds files that were not made for {target}; move them, or name another output")


def _outside_archives(utterance: Utterance, folder: Path) -> Utterance:
    """The utterance with its audio in a file of the folder, if it lies in an archive.

    Raises:
        InputError: the archive cannot be read, or the file not be written.
    """
    path = utterance.audio_path
    if (archive := archive_of(path)) is None:
        return utterance
    file = folder / name_by_path(path)
    with atomic_write(file) as partial:
        partial.write_bytes(read_member(path, archive))
    return replace(utterance, audio_path=file)


def _misfit(utterance: Utterance, to: str) -> str:
    """A line on why a layout cannot hold an utterance; empty where it can."""
    if to not in ANY_NAME and not in_utf8(utterance.audio_path):
        return f"{utterance.audio_path}: its name is not UTF-8, which {to} cannot hold; rename it"
    values = {"text": utterance.text, "speaker": utterance.speaker, "lang": utterance.lang}
    for key, value in (values if to in ANY_NAME else values | utterance.extra).items():
        if SURROGATE.search(key + json.dumps(value, ensure_ascii=False)):
            return f"{utterance.place}: {key} holds half a character, {value!r:.60}; write the corpus again"
    return LAYOUTS[to].unfit(utterance)
