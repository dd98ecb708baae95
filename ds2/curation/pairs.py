"""The recordings of a folder, each with its transcript."""

from dataclasses import dataclass
from pathlib import Path

from ds2.audio.files import SUFFIXES
from ds2.recognition.recordings import audio_below
from ds2.utils.errors import InputError


@dataclass(frozen=True)
class Pair:
    """A recording and its transcript; `name` is its path within the folder."""

    name: str
    audio: Path
    text: Path


def find_pairs(folder: Path, output: Path | None = None) -> list[Pair]:
    """All recordings below a folder, sorted, each with the .txt of the same stem beside it, which may be missing.

    Args:
        output: the output folder; the segments in it, of an earlier run, do not count as recordings.

    Raises:
        InputError: no folder, or no recording in it.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; name one with recordings and their transcripts")
    found = audio_below(folder)
    if output is not None:
        here, segments = folder.resolve(), segments_folder(output.resolve())
        found = [path for path in found if not (here / path.relative_to(folder)).is_relative_to(segments)]
    if not found:
        raise InputError(f"{folder}: no audio file in this folder ({', '.join(SUFFIXES)})")
    return [Pair(str(path.relative_to(folder)), path, path.with_suffix(".txt")) for path in found]


def segments_folder(output: Path) -> Path:
    """The folder of the utterances' sound, in that of the corpus."""
    return output / "audio"
