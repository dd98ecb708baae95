"""One recording: aligned, cut into files, scored, and recorded, so that it is not processed again."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ds2.audio.files import SUFFIXES, probe
from ds2.audio.flac import write_flac
from ds2.audio.loudness import HOP
from ds2.audio.tensors import read_audio
from ds2.curation.score import score
from ds2.curation.segment import SegmentConfig, segment
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError
from ds2.utils.files import in_utf8, make_folder, read_text, write_text

OVERVIEW_SECONDS = 0.25  # the overview shows the loudest level of each
CLIPPED_FRACTION = 1e-3  # of the samples at full scale: above it a recording counts as clipped
FULL_SCALE = 0.999
BUFFER = 1 << 16  # samples read at once


@dataclass(frozen=True)
class Pair:
    """A recording and its transcript; `name` is its path within the folder."""

    name: str
    audio: Path
    text: Path


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


def find_pairs(folder: Path, output: Path | None = None) -> list[Pair]:
    """All recordings below a folder, sorted, each with the .txt of the same stem beside it, which may be missing.

    Args:
        output: the output folder; the segments in it, of an earlier run, do not count as recordings.

    Raises:
        InputError: no folder, or no recording in it.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; name one with recordings and their transcripts")
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if output is not None:
        here, segments = folder.resolve(), segments_folder(output.resolve())
        found = [path for path in found if not (here / path.relative_to(folder)).is_relative_to(segments)]
    if not found:
        raise InputError(f"{folder}: no audio file in this folder ({', '.join(SUFFIXES)})")
    return [Pair(str(path.relative_to(folder)), path, path.with_suffix(".txt")) for path in found]


def segments_folder(output: Path) -> Path:
    """The folder of the utterances' sound, in that of the corpus."""
    return output / "audio"


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


@dataclass(frozen=True)
class RecordMaker:
    """Makes the records of recordings, and their segments, with a loaded model in one output folder."""

    recognizer: Recognizer
    output: Path
    config: SegmentConfig
    skip: bool
    language: str | None

    def __call__(self, pair: Pair, key: dict[str, Any]) -> RecordingResult:
        """Aligns, cuts and scores one recording and writes its record, errors included.

        A record of an unexpected error (a full disk, a fault in a library) is not written: the next run tries again.
        """
        folder = segments_folder(self.output) / pair.name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            record = self._record(pair, key)
        except InputError as error:
            record = RecordingResult(pair.name, key, str(pair.audio), str(error))
        except Exception as error:  # one recording must not end hours of work on others
            return RecordingResult(pair.name, key, str(pair.audio), f"{pair.audio}: {type(error).__name__}: {error}")
        path = record_path(self.output, pair.name)
        make_folder(path.parent)
        write_text(path, json.dumps(asdict(record), ensure_ascii=False))
        return record

    def _record(self, pair: Pair, key: dict[str, Any]) -> RecordingResult:
        if not in_utf8(pair.audio):
            raise InputError(f"{pair.audio}: its name is not UTF-8; rename it")
        if not pair.text.exists():
            raise InputError(f"{pair.audio}: no transcript {pair.text.name} beside it")
        text = read_text(pair.text)
        clipped, silent = _extremes(pair.audio)
        if silent:
            raise InputError(f"{pair.audio}: silence, every sample is 0; record it again")
        found = segment(self.recognizer, pair.audio, text, self.config, self.skip, self.language)
        utterances = [_cut_out(utterance, pair, self.output) for utterance in found.utterances]
        scored = list(score(self.recognizer, utterances))
        warnings = [str(result) for result in scored if isinstance(result, InputError)]
        if clipped > CLIPPED_FRACTION:
            warnings.append(f"clipped: {clipped:.1%} of the samples are at full scale; record it with less gain")
        bins = len(found.level) // max(1, round(OVERVIEW_SECONDS / HOP)) or 1
        level = [round(float(part.max()), 1) for part in np.array_split(found.level, bins)]
        segments = [_manifest_values(result, self.output) for result in scored if isinstance(result, Utterance)]
        return RecordingResult(
            pair.name, key, str(pair.audio), "", warnings, round(found.duration, 3), level, found.too_short,
            found.too_long, segments,
        )  # fmt: skip


def _cut_out(utterance: Utterance, pair: Pair, output: Path) -> Utterance:
    """The utterance in a separate file, FLAC at the recording's rate, named after its milliseconds."""
    offset = utterance.offset or 0.0
    span = f"{round(offset * 1000):08}-{round((offset + utterance.duration) * 1000):08}"
    path = segments_folder(output) / pair.name / f"{span}.flac"
    samples, rate = read_audio(pair.audio, None, offset, utterance.duration)
    make_folder(path.parent)
    write_flac(path, samples.numpy(), rate)
    extra = {"id": f"{pair.name}/{span}", "start": offset, **utterance.extra}
    return replace(utterance, audio_path=path.absolute(), offset=None, extra=extra)


def _manifest_values(utterance: Utterance, output: Path) -> dict[str, Any]:
    path = str(utterance.audio_path.relative_to(output.absolute()))
    return {"audio": path, "duration": utterance.duration, "text": utterance.text, **utterance.extra}


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


def _extremes(audio: Path) -> tuple[float, bool]:
    """The fraction of samples at full scale, and whether all samples are 0; reads the file in buffers."""
    probe(audio)  # raises InputError for a bad file
    clipped, loudest, count = 0, 0.0, 0
    with soundfile.SoundFile(os.fsencode(audio)) as sound:
        try:
            for buffer in sound.blocks(BUFFER, dtype="float32"):
                peaks = np.abs(buffer)
                clipped += int((peaks >= FULL_SCALE).sum())
                loudest = max(loudest, float(peaks.max(initial=0.0)))
                count += peaks.size
        except soundfile.LibsndfileError:
            pass  # the aligner reports the damaged place
        whole = count == sound.frames * sound.channels
    return clipped / max(1, count), whole and loudest == 0.0


def _stamp(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
