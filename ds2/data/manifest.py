"""Manifests: JSON Lines, one utterance a line, `{"audio_filepath": ..., "duration": ..., "text": ...}`."""

import codecs
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

KINDS = {  # key: (type in JSON, whether every line must have it)
    "audio_filepath": (str, True),
    "duration": (float, True),
    "text": (str, True),
    "offset": (float, False),
    "speaker": (str, False),
    "lang": (str, False),
}


@dataclass(frozen=True)
class Utterance:
    """One line of a manifest."""

    audio_path: Path
    duration: float  # seconds
    text: str
    offset: float | None = None  # seconds into the file; None: the utterance is the whole file
    speaker: str | None = None
    lang: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # other keys of the line, kept as they are
    place: str = field(default="", compare=False)  # "manifest:line", for messages

    @property
    def stretch(self) -> tuple[Path, float | None, float | None]:
        """The audio it is of; in a manifest each has its own."""
        return self.audio_path, self.offset, None if self.offset is None else self.duration


@dataclass(frozen=True)
class ManifestSummary:
    """Figures that describe a corpus."""

    utterances: int
    hours: float
    speakers: int
    shortest: float  # seconds
    median: float
    longest: float
    words: int
    characters: dict[str, int]  # how often each occurs, most frequent first


def read_manifest(path: str | Path) -> list[Utterance]:
    """Reads and checks a manifest; relative audio paths are relative to it. The audio itself is not touched.

    Raises:
        InputError: naming the line: not JSON, a key missing or of the wrong type, an impossible duration or offset,
            a duplicate; or the file is missing, not UTF-8, or has no utterance.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot read the manifest ({error.strerror})") from error
    utterances: list[Utterance] = []
    seen: dict[tuple[Path, float | None, float | None], str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        utterance = _parse(line, path, f"{path}:{number}")
        other = seen.setdefault(utterance.stretch, utterance.place)
        if other != utterance.place:
            raise InputError(f"{utterance.place}: duplicate of {other}, the same audio again; remove one")
        utterances.append(utterance)
    if not utterances:
        raise InputError(f"{path}: the manifest holds no utterance")
    return utterances


def write_manifest(path: str | Path, utterances: Sequence[Utterance]) -> None:
    """Writes a manifest, whole or not at all; audio below its folder is named relative to it."""
    path = Path(path)
    # backslashreplace writes what UTF-8 cannot hold (bytes of odd file names) as \udcff, which JSON reads back
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for utterance in utterances:
            file.write(json.dumps(_line(utterance, path.absolute().parent), ensure_ascii=False) + "\n")


def check_characters(utterances: Sequence[Utterance], tokenizer: Tokenizer) -> None:
    """Refuses utterances with characters that the alphabet lacks.

    Raises:
        InputError: naming the first such line, all such characters, and how many utterances hold them.
    """
    bad = [utterance for utterance in utterances if tokenizer.unknown(utterance.text)]
    if bad:
        characters = "".join(sorted(set().union(*(tokenizer.unknown(utterance.text) for utterance in bad))))
        raise InputError(
            f"{bad[0].place}: characters that the model's alphabet lacks: {characters!r} "
            f"({len(bad)} of {len(utterances)} utterances); normalise the texts"
        )


def summary(utterances: Sequence[Utterance]) -> ManifestSummary:
    """Figures that describe the corpus; at least one utterance."""
    durations = [utterance.duration for utterance in utterances]
    characters = Counter(character for utterance in utterances for character in utterance.text)
    return ManifestSummary(
        utterances=len(utterances),
        hours=sum(durations) / 3600,
        speakers=len({utterance.speaker for utterance in utterances if utterance.speaker is not None}),
        shortest=min(durations),
        median=statistics.median(durations),
        longest=max(durations),
        words=sum(len(utterance.text.split()) for utterance in utterances),
        characters=dict(characters.most_common()),
    )


def _parse(line: bytes, path: Path, place: str) -> Utterance:
    try:
        values = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not UTF-8; convert the manifest") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: not valid JSON ({error.msg} at column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # thousands of digits, thousands of brackets
        raise InputError(f"{place}: not valid JSON ({error!s:.60})") from error
    if not isinstance(values, dict):
        raise InputError(f'{place}: expected an object {{"audio_filepath": ...}}, got {values!r:.60}')
    for key, (kind, required) in KINDS.items():
        _check_kind(values, key, kind, required, place)
    duration, offset = values["duration"], values.get("offset")
    if not 0 < duration <= sys.float_info.max:  # which NaN, infinity and integers too large for a float fail
        raise InputError(f"{place}: duration must be positive seconds, got {duration!r:.60}")
    if offset is not None and not 0 <= offset <= sys.float_info.max:
        raise InputError(f"{place}: offset must be 0 or more seconds, got {offset!r:.60}")
    return Utterance(
        audio_path=(path.parent / values["audio_filepath"]).absolute(),
        duration=float(duration),
        text=values["text"],
        offset=None if offset is None else float(offset),
        speaker=values.get("speaker"),
        lang=values.get("lang"),
        extra={key: value for key, value in values.items() if key not in KINDS},
        place=place,
    )


def _check_kind(values: dict[str, Any], key: str, kind: type, required: bool, place: str) -> None:
    value = values.get(key)
    if value is None and not required:
        return
    if key not in values:
        raise InputError(f"{place}: lacks {key}")
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
        raise InputError(f"{place}: {key} must be a {'number' if kind is float else 'string'}, got {value!r:.60}")


def _line(utterance: Utterance, folder: Path) -> dict[str, Any]:
    """The JSON object of an utterance; keys without a value are left out."""
    path = utterance.audio_path
    values = {
        "audio_filepath": str(path.relative_to(folder) if path.is_relative_to(folder) else path),
        "duration": utterance.duration,
        "text": utterance.text,
        "offset": utterance.offset,
        "speaker": utterance.speaker,
        "lang": utterance.lang,
    }
    others = {key: value for key, value in utterance.extra.items() if key not in KINDS}
    return {key: value for key, value in values.items() if value is not None} | others
