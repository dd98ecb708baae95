"""lhotse's cuts: JSON Lines, plain or gzipped; each supervision of a cut is an utterance."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ds2.audio.files import probe
from ds2.data.corpus_rows import Row
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, text_lines

WHOLE = 0.01  # seconds by which a cut may miss the ends of its recording and still be all of it


def read(source: Path, _: Path) -> Iterator[Row]:
    """The supervisions of all cuts, MonoCut or MultiCut, whose recording is one file and used with all its channels.

    Raises:
        InputError: naming the line that is not such a cut.
    """
    for number, line in enumerate(text_lines(source), 1):
        place = f"{source}:{number}"
        try:
            yield from _supervision_rows(json.loads(line), place)
        except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{place}: not a cut with a recording in a file ({error!r:.60})") from error


def write(target: Path, utterances: Sequence[Utterance]) -> None:
    """A cut with one supervision for each utterance, of all channels."""
    zipped = target.suffix == ".gz"
    with atomic_write(target) as partial, (gzip.open if zipped else open)(partial, "wt", encoding="utf-8") as file:
        for number, utterance in enumerate(utterances):
            file.write(json.dumps(_lhotse_cut(utterance, f"utt-{number:07}"), ensure_ascii=False) + "\n")


def _supervision_rows(cut: dict[str, Any], place: str) -> Iterator[Row]:
    recording = cut["recording"]
    [source] = recording["sources"]
    taken, there = (np.size(each) for each in (cut.get("channel", 0), source.get("channels", 0)))
    if taken < there:  # which our readers would average with the others
        raise ValueError(f"{taken} of {there} channels; write them to files")
    for supervision in cut["supervisions"]:
        start = round(float(cut["start"]) + float(supervision["start"]), 6)
        duration = round(float(supervision["duration"]), 6)
        whole = start < WHOLE and duration > recording["duration"] - WHOLE
        yield Row(
            Path(source["source"]),
            str(supervision.get("text") or ""),
            _text_or_none(supervision, "speaker"),
            _text_or_none(supervision, "language"),
            None if whole else start,
            None if whole else duration,
            {"id": supervision["id"], **(supervision.get("custom") or {})},
            place,
        )


def _text_or_none(supervision: dict[str, Any], key: str) -> str | None:
    value = supervision.get(key)
    if not isinstance(value, str | None):
        raise TypeError(f"{key} is no text")
    return value


def _lhotse_cut(utterance: Utterance, name: str) -> dict[str, Any]:
    info = probe(utterance.audio_path)
    frames = round(info.duration * info.sample_rate)
    channels = list(range(info.channels))
    channel, kind = (0, "MonoCut") if info.channels == 1 else (channels, "MultiCut")
    extra = dict(utterance.extra)
    name = str(extra.pop("id", name))
    duration = info.duration if utterance.offset is None else utterance.duration
    supervision = {"id": name, "recording_id": name, "start": 0.0, "duration": duration, "channel": channel}
    supervision |= {"text": utterance.text, "speaker": utterance.speaker, "language": utterance.lang, "custom": extra}
    source = {"type": "file", "channels": channels, "source": str(utterance.audio_path)}
    recording = {"id": name, "sources": [source], "sampling_rate": info.sample_rate, "num_samples": frames}
    recording |= {"duration": info.duration, "channel_ids": channels}
    return {
        "id": name,
        "start": utterance.offset or 0.0,
        "duration": duration,
        "channel": channel,
        "supervisions": [{key: value for key, value in supervision.items() if value not in (None, {})}],
        "recording": recording,
        "type": kind,
    }
