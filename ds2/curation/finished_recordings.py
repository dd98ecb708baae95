"""The results of recordings in the folder of a corpus: where nothing has changed since, one is used again."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ds2.curation.pairs import Pair
from ds2.curation.segment import SegmentConfig
from ds2.data.utterance import Utterance


@dataclass(frozen=True)
class RecordingResult:
    """The result of processing a recording.

    Attributes:
        key: the fingerprint of its inputs; a record with another one is made again.
        error: why nothing could be used, or "".
        warnings: what may be wrong with the recording.
        level: dB, the loudest of every OVERVIEW_SECONDS.
        too_short, too_long: segments rejected for their length.
        segments: dictionaries of id, audio (path within the output), start, duration, text, words, hypothesis, cost,
            frames.
    """

    name: str
    key: dict[str, Any]
    audio: str
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    duration: float = 0.0
    level: list[float] = field(default_factory=list)
    too_short: int = 0
    too_long: int = 0
    segments: list[dict[str, Any]] = field(default_factory=list)


def record_path(output: Path, name: str) -> Path:
    """The file that holds the record of a recording, in the folder of the corpus."""
    return output / "recordings" / f"{name}.json"


def record_fingerprint(
    pair: Pair, model: Path, config: SegmentConfig, skip: bool, language: str | None
) -> dict[str, Any]:
    """Everything that a record depends on; files by size and time of change."""
    files = {"audio": pair.audio, "text": pair.text, "model": model}
    stamps = {name: _stamp(path) for name, path in files.items()}
    named = {} if language is None else {"language": language}  # records of before --language hold
    return {**stamps, "segment": asdict(config), "skip": skip, **named}


def load_record(output: Path, name: str, key: dict[str, Any]) -> RecordingResult | None:
    """The record of an earlier run; None where there is none with this key."""
    try:
        values = json.loads(record_path(output, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if values["key"] != json.loads(json.dumps(key)):
        return None
    for row in values["segments"]:
        if "heard" in row:  # its name in version 0.1
            row["hypothesis"] = row.pop("heard")
    return RecordingResult(**values)


def utterances_of(record: RecordingResult, output: Path) -> list[Utterance]:
    """The scored segments of a record as lines of a manifest."""
    return [
        Utterance(
            (output / row["audio"]).absolute(),
            row["duration"],
            row["text"],
            extra={key: value for key, value in row.items() if key not in ("audio", "duration", "text")},
        )
        for row in record.segments
    ]


def _stamp(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
