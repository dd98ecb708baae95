"""Manifests: JSON Lines, one utterance a line, `{"audio_filepath": ..., "duration": ..., "text": ...}`."""

import codecs
import contextlib
import gc
import json
import os
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from ds2.text import Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write

NUMBER, TEXT, OPTIONAL = (float, int), (str,), (type(None),)
KINDS: dict[str, tuple[type, ...]] = {  # of the values in JSON; a key that may be null may also be absent
    "audio_filepath": TEXT,
    "duration": NUMBER,
    "text": TEXT,
    "offset": NUMBER + OPTIONAL,
    "speaker": TEXT + OPTIONAL,
    "lang": TEXT + OPTIONAL,
}
MOST_SECONDS = 1e7  # 115 days: no recording is longer
MOST_CHARACTERS = {"text": 1_000_000, "audio_filepath": 4096, "speaker": 1000, "lang": 1000}  # a text: a day's speech
ENCODER = json.JSONEncoder(ensure_ascii=False)


class Segment(NamedTuple):
    """A file, or `duration` seconds of it from `offset` (seconds) on; to its end without a duration.

    `channel` counts from 0; None: the average of all channels.
    """

    path: Path
    offset: float = 0.0
    duration: float | None = None
    channel: int | None = None

    def __str__(self) -> str:
        """The path, with the times of a part of it."""
        if self.duration is None:
            return str(self.path)
        return f"{self.path}:{self.offset:.2f}-{self.offset + self.duration:.2f}"


@dataclass(frozen=True, slots=True)
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
    def segment(self) -> Segment:
        """Its audio; in a manifest each utterance has its own."""
        if self.offset is None:
            return Segment(self.audio_path)
        return Segment(self.audio_path, self.offset, self.duration)


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
    with _collector_paused():
        utterances = _read(Path(path))
    if not utterances:
        raise InputError(f"{path}: the manifest holds no utterance")
    return utterances


def write_manifest(path: str | Path, utterances: Sequence[Utterance]) -> None:
    """Writes a manifest, whole or not at all; audio below its folder is named relative to it."""
    path = Path(path)
    folder = os.path.join(path.absolute().parent, "")
    # backslashreplace writes what UTF-8 cannot hold (bytes of odd file names) as \udcff, which JSON reads back
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for utterance in utterances:
            file.write(ENCODER.encode(_line(utterance, folder)) + "\n")


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


def _read(path: Path) -> list[Utterance]:
    folder, name = os.path.join(path.parent.absolute(), ""), str(path)
    utterances: list[Utterance] = []
    first: dict[tuple[str, float | None, float | None], int] = {}  # a segment's first line
    for number, line in _numbered_lines(path):
        place = f"{name}:{number}"
        values = _decoded(line, place)
        _check(values, place)
        audio = values["audio_filepath"]
        audio = audio if os.path.isabs(audio) else folder + audio
        if "./" in audio or "//" in audio:
            audio = str(Path(audio))  # "./a.wav" is "a.wav"
        offset, duration = values.get("offset"), values["duration"]
        other = first.setdefault((audio, offset, None if offset is None else duration), number)
        if other != number:
            raise InputError(f"{place}: duplicate of {name}:{other}, the same audio again; remove one")
        utterances.append(_utterance(values, audio, place))
    return utterances


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Millions of new objects would make Python's garbage collector go through all of them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, and their numbers, from 1."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if not line.isspace() and line:
                    yield number, line
    except OSError as error:
        raise InputError(f"{path}: cannot read the manifest ({error.strerror})") from error


_decode = msgspec.json.Decoder().decode


def _decoded(line: bytes, place: str) -> Any:
    """The values of a line; json, which is slower, reads and explains what msgspec refuses."""
    try:
        return _decode(line)
    except (ValueError, RecursionError):  # also unpaired surrogates, NaN and Infinity, which json takes
        pass
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not valid UTF-8; convert the manifest") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: not valid JSON ({error.msg} at column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # thousands of digits, thousands of brackets
        raise InputError(f"{place}: not valid JSON ({error!s:.60})") from error


def _check(values: Any, place: str) -> None:
    if type(values) is not dict:
        raise InputError(f'{place}: expected an object {{"audio_filepath": ...}}, got {values!r:.60}')
    for key, kinds in KINDS.items():
        if type(values.get(key)) not in kinds:
            _refuse(values, key, place)
    duration, offset = values["duration"], values.get("offset")
    if not 0 < duration <= MOST_SECONDS:  # which NaN fails, too
        raise InputError(f"{place}: duration must be positive seconds, up to {MOST_SECONDS:g}, got {duration!r:.60}")
    if offset is not None and not 0 <= offset <= MOST_SECONDS:
        raise InputError(f"{place}: offset must be 0 or more seconds, up to {MOST_SECONDS:g}, got {offset!r:.60}")
    for key, most in MOST_CHARACTERS.items():
        if (length := len(values.get(key) or "")) > most:
            raise InputError(f"{place}: {key} must have up to {most:,} characters, got {length:,}")


def _refuse(values: dict[str, Any], key: str, place: str) -> NoReturn:
    if key not in values:
        raise InputError(f"{place}: lacks {key}")
    kind = "number" if float in KINDS[key] else "string"
    raise InputError(f"{place}: {key} must be a {kind}, got {values[key]!r:.60}")


def _utterance(values: dict[str, Any], audio: str, place: str) -> Utterance:
    offset = values.get("offset")
    return Utterance(
        Path(audio),
        float(values["duration"]),
        values["text"],
        None if offset is None else float(offset),
        values.get("speaker"),
        values.get("lang"),
        {key: value for key, value in values.items() if key not in KINDS},
        place,
    )


def _line(utterance: Utterance, folder: str) -> dict[str, Any]:
    """The JSON object of an utterance; keys without a value are left out."""
    values = {
        "audio_filepath": str(utterance.audio_path).removeprefix(folder),
        "duration": utterance.duration,
        "text": utterance.text,
        "offset": utterance.offset,
        "speaker": utterance.speaker,
        "lang": utterance.lang,
    }
    others = {key: value for key, value in utterance.extra.items() if key not in KINDS}
    return {key: value for key, value in values.items() if value is not None} | others
