"""Makes the result of one recording: aligned with its transcript, cut into files, scored, and kept."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ds2.audio.files import probe
from ds2.audio.flac import write_flac
from ds2.audio.libsndfile import QuietSoundFile
from ds2.audio.loudness import HOP
from ds2.audio.tensors import read_audio
from ds2.curation.finished_recordings import RecordingResult, record_path
from ds2.curation.pairs import Pair, segments_folder
from ds2.curation.score import score
from ds2.curation.segment import SegmentConfig, segment
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError
from ds2.utils.files import in_utf8, read_text, write_text

OVERVIEW_SECONDS = 0.25  # the overview shows the loudest level of each
CLIPPED_FRACTION = 1e-3  # of the samples at full scale: above it a recording counts as clipped
FULL_SCALE = 0.999
BUFFER = 1 << 16  # samples read at once


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
        write_text(record_path(self.output, pair.name), json.dumps(asdict(record), ensure_ascii=False))
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
            pair.name, key, str(pair.audio), "", warnings, round(found.duration, 3), level, len(found.too_short),
            len(found.too_long), segments,
        )  # fmt: skip


def _cut_out(utterance: Utterance, pair: Pair, output: Path) -> Utterance:
    """The utterance in a separate file, FLAC at the recording's rate, named after its milliseconds."""
    offset = utterance.offset or 0.0
    span = f"{round(offset * 1000):08}-{round((offset + utterance.duration) * 1000):08}"
    path = segments_folder(output) / pair.name / f"{span}.flac"
    samples, rate = read_audio(pair.audio, None, offset, utterance.duration)
    write_flac(path, samples.numpy(), rate)
    extra = {"id": f"{pair.name}/{span}", "start": offset, **utterance.extra}
    return replace(utterance, audio_path=path.absolute(), offset=None, extra=extra)


def _manifest_values(utterance: Utterance, output: Path) -> dict[str, Any]:
    path = str(utterance.audio_path.relative_to(output.absolute()))
    return {"audio": path, "duration": utterance.duration, "text": utterance.text, **utterance.extra}


def _extremes(audio: Path) -> tuple[float, bool]:
    """The fraction of samples at full scale, and whether all samples are 0; reads the file in buffers."""
    probe(audio)  # raises InputError for a bad file
    clipped, loudest, count = 0, 0.0, 0
    with QuietSoundFile(os.fsencode(audio)) as sound:
        try:
            while len(buffer := sound.read(BUFFER, dtype="float32")):
                peaks = np.abs(buffer)
                clipped += int((peaks >= FULL_SCALE).sum())
                loudest = max(loudest, float(peaks.max(initial=0.0)))
                count += peaks.size
        except soundfile.LibsndfileError:
            pass  # the aligner reports the damaged place
        whole = count == sound.frames * sound.channels
    return clipped / max(1, count), whole and loudest == 0.0
