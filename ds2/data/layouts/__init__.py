"""Corpora in the layouts of others: each a module with `read` (its rows) and, where sensible, `write`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ds2.audio.files import SUFFIXES
from ds2.data import shards
from ds2.data.corpus_rows import Row
from ds2.data.layouts import (
    common_voice,
    kaldi,
    lhotse,
    librispeech,
    ljspeech,
    nemo,
    parquet,
    table,
    text_files,
    transcripts,
)
from ds2.data.layouts.regular_files import regular_files
from ds2.data.manifest import write_manifest
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError, ParameterError


@dataclass(frozen=True)
class Layout:
    """A way to lay a corpus out.

    Attributes:
        read: (source, folder for audio that lies inside tables) -> rows.
        write: (target, utterances); None: the layout is only read.
        lost: the keys of utterances that `write` leaves out.
        unfit: a line on why `write` cannot take an utterance; empty: it can.
        ends: what the names of targets end in, by which they are known; empty: any name.
    """

    read: Callable[[Path, Path], Iterable[Row]]
    write: Callable[[Path, Sequence[Utterance]], None] | None = None
    lost: Callable[[Sequence[Utterance]], set[str]] = lambda _: set()
    unfit: Callable[[Utterance], str] = lambda _: ""
    ends: tuple[str, ...] = ()


LAYOUTS = {
    "nemo": Layout(nemo.read, write_manifest, ends=(".jsonl", ".json")),
    "kaldi": Layout(kaldi.read, kaldi.write, kaldi.lost_in_kaldi, kaldi.unfit_for_kaldi),
    "librispeech": Layout(librispeech.read),
    "common_voice": Layout(common_voice.read, common_voice.write, common_voice.lost_in_common_voice, ends=(".tsv",)),
    "lhotse": Layout(lhotse.read, lhotse.write, ends=(".jsonl.gz", ".jsonl")),
    "parquet": Layout(parquet.read, parquet.write, parquet.lost_in_parquet, ends=(".parquet",)),
    "table": Layout(table.read),
    "ljspeech": Layout(ljspeech.read),
    "text_files": Layout(text_files.read),
    "transcripts": Layout(transcripts.read),
    "webdataset": Layout(shards.read, shards.write),
}


def guess_layout(source: Path) -> str:
    """The layout of what lies at `source`.

    Raises:
        InputError: nothing is there. ParameterError: it looks like none of them.
    """
    name = source.name
    if name.endswith((".jsonl.gz", "cuts.jsonl")):
        return "lhotse"
    by_suffix = {".jsonl": "nemo", ".json": "nemo", ".parquet": "parquet", ".tar": "webdataset"}
    if source.suffix in by_suffix:
        return by_suffix[source.suffix]
    if source.suffix in (".csv", ".tsv"):
        return _guess_table(source)
    if (source / ljspeech.TABLE).is_file():
        return _guess_table(source / ljspeech.TABLE)
    if nemo.manifest_in(source) is not None:
        return "nemo"
    if (source / "wav.scp").is_file():
        return "kaldi"
    if (source / "clips").is_dir():
        return "common_voice"
    for kind in (".parquet", ".tar"):
        if next(regular_files(source, f"*{kind}"), None):
            return by_suffix[kind]
    if next(regular_files(source, "**/*.trans.txt"), None):
        return "librispeech"
    if any(text_files.text_of(path) for path in regular_files(source, "**/*") if path.suffix.lower() in SUFFIXES):
        return "text_files"
    if next(regular_files(source, "**/*.json"), None):
        return "transcripts"
    if not source.exists():
        raise InputError(f"{source}: cannot be read (No such file or directory)")
    raise ParameterError("from", f"{source} looks like none of {', '.join(LAYOUTS)}; name its layout")


def _guess_table(source: Path) -> str:
    if source.suffix == ".tsv" and (source.parent / "clips").is_dir():
        return "common_voice"
    return "ljspeech" if source.name == ljspeech.TABLE and not table.is_table(source) else "table"
