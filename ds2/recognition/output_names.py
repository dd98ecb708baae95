"""The names of transcripts in a folder.

    mon/call1.wav                 -> call1
    mon/call1.wav, tue/call1.wav  -> mon_call1.wav, tue_call1.wav
    tue/call1.wav, where call1 is the transcript of mon/call1.wav from before  -> tue_call1.wav

A recording keeps the name that it got before, whatever else comes into the folder later.
"""

import functools
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ds2.data.utterance import RecordingSpan
from ds2.utils.errors import printable
from ds2.utils.files import REPORT
from ds2.utils.own_files import recording_of

STDIN = Path("-")
NAME_BYTES = 200  # of a path in an output's name; file systems allow 255, ending and temporary name included


def output_names(
    recordings: Sequence[RecordingSpan], output: Path, formats: Sequence[str]
) -> dict[RecordingSpan, Path]:
    """Output paths without their format, all distinct: by stem; where two are equal, or the name is that of another
    recording from before, by the path below the common folder."""
    whole = {recording: recording.path.absolute() for recording in recordings}
    folder = os.path.commonpath([path.parent for path in whole.values()] or [Path(os.sep)])
    bases = {recording: _printed(_base(recording, recording.path.stem)) for recording in recordings}
    counts, owner = Counter(bases.values()), functools.cache(functools.partial(_owner, output, tuple(formats)))
    first = {base: recording for recording, base in reversed(bases.items()) if owner(base) == whole[recording]}
    names, taken = {recording: base for base, recording in first.items()}, {Path(REPORT).stem, *first}
    for recording, base in bases.items():
        if recording in names:
            continue
        if counts[base] > 1 or owner(base) is not None:
            parts = whole[recording].relative_to(folder).parts
            inside = parts if len(parts) > 1 or counts[base] > 1 else whole[recording].parts[-2:]
            base = _printed(_base(recording, "_".join(inside)))
        numbered = itertools.chain([base], (f"{base}_{number}" for number in itertools.count(2)))
        names[recording] = next(
            name for name in numbered if name not in taken and owner(name) in (None, whole[recording])
        )
        taken.add(names[recording])
    return {recording: output / names[recording] for recording in recordings}


def _owner(output: Path, formats: Sequence[str], name: str) -> Path | None:
    """The recording whose transcript has this name; None if there is none, or nobody knows."""
    return next(filter(None, (recording_of(output / f"{name}.{format}") for format in formats)), None)


def _printed(name: str) -> str:
    return printable(name).encode()[-NAME_BYTES:].decode(errors="ignore")


def _base(recording: RecordingSpan, name: str) -> str:
    """The name of an output; a span has its start in it, with as many digits as all others, so that they sort."""
    if recording.path == STDIN:
        return "stdin"
    return name if recording.duration is None else f"{name}_{recording.offset:08.2f}"
