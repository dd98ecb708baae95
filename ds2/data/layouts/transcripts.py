"""A folder of transcripts in JSON by `ds2 transcribe`: with the recordings that they name, a corpus to train on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ds2.data.corpus_rows import Row
from ds2.utils.errors import InputError
from ds2.utils.files import read_text


def read(source: Path, _: Path) -> Iterator[Row]:
    """Each transcript below `source`, with the mean confidence of its words as a key; others are left out by name."""
    for path in sorted(source.rglob("*.json")):
        try:
            transcript = transcript_of(path)
        except InputError as error:
            yield Row(path, "", problem=str(error))
            continue
        words = transcript.get("words") or []
        confidences = [word["confidence"] for word in words if isinstance(word.get("confidence"), float)]
        extra = {"confidence": round(sum(confidences) / len(confidences), 4)} if confidences else {}
        yield Row(Path(transcript["file"]), transcript["text"], extra=extra, place=str(path))


def transcript_of(path: Path) -> dict[str, Any]:
    """The transcript in a file, with its "file", its "text" and, where there are any, its "words".

    Raises:
        InputError: the file holds something else.
    """
    try:
        transcript = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error!s:.200})") from error
    known = isinstance(transcript, dict) and all(isinstance(transcript.get(key), str) for key in ("file", "text"))
    words = transcript.get("words", []) if known else None
    if not isinstance(words, list) or not all(isinstance(word, dict) for word in words):
        raise InputError(f"{path}: not a transcript in JSON by ds2 transcribe")
    return transcript
