"""A folder of long recordings and their transcripts in, a clean training set and a report out.

OUTPUT/
  recordings/NAME.json    what became of each recording: this is what a killed run goes on from
  audio/NAME/FROM-TO.flac its segments, named after their milliseconds
  kept.jsonl, rejected.jsonl      manifests; failed.txt: recordings that could not be used, and why
  to_check.jsonl          segments drawn at random: correct their texts and pass the file as the checked subset
  filter.json, filter.png what the filter learnt
  report/index.html       to look at and listen to
"""

import json
import multiprocessing
import os
import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ds2.bundle import DEFAULT_MODEL, locate
from ds2.curation.filter import FilterConfig, FilterReport, filter_segments, read_checked
from ds2.curation.plots import draw_filter
from ds2.curation.recording import Pair, Record, find_pairs, fingerprint, load_record, make_record, utterances_of
from ds2.curation.report import write_report
from ds2.curation.score import score
from ds2.curation.segment import SegmentConfig
from ds2.data.manifest import Utterance, read_manifest, write_manifest
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder, write_lines
from ds2.utils.progress import Progress

TO_CHECK = 200  # segments that a person is asked to check


@dataclass(frozen=True)
class CorpusConfig:
    """How a corpus is made."""

    model: str = DEFAULT_MODEL  # bundle, or its name in the package
    device: str = "cpu"
    workers: int = 1  # processes
    skip: bool = False  # speech that is not transcribed may stand between the lines of the texts
    checked: Path | None = None  # JSON Lines of id and true text
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)


@dataclass(frozen=True)
class Corpus:
    """What was made: a record for each recording, all segments judged, and the filter's report or why there is none."""

    records: list[Record]
    segments: list[Utterance]
    report: FilterReport | None
    unfiltered: str = ""

    @property
    def kept(self) -> list[Utterance]:
        return [utterance for utterance in self.segments if utterance.extra["kept"]]

    @property
    def summary(self) -> str:
        """One line or two."""
        seconds = sum(record.duration for record in self.records)
        kept = sum(utterance.duration for utterance in self.kept)
        used = sum(not record.error for record in self.records)
        lines = f"{used} of {len(self.records)} recordings, {seconds / 3600:.2f} h: {len(self.segments)} segments, "
        lines += f"{len(self.kept)} kept, {kept / 3600:.2f} h\n"
        return lines + (self.report.summary if self.report is not None else self.unfiltered)

    @property
    def failed(self) -> list[str]:
        return [record.error for record in self.records if record.error]


def make_corpus(folder: Path, output: Path, config: CorpusConfig) -> Corpus:
    """Makes a corpus, or goes on making it; a recording that cannot be used is reported and the others go on.

    Raises:
        InputError: no recordings; a bad model or checked subset; the output cannot be written.
    """
    pairs, checked = find_pairs(folder, output), read_checked(config.checked) if config.checked is not None else None
    make_folder(output)
    for partial in output.rglob(".*.partial"):  # of a run that was killed
        partial.unlink(missing_ok=True)
    records = _records(pairs, output.absolute(), config)
    segments = [utterance for record in records for utterance in utterances_of(record, output)]
    corpus = _filtered(records, segments, checked, config.filter)
    _write_judged(output, corpus.segments, corpus.report)
    to_check = _sample(corpus.segments)
    write_manifest(output / "to_check.jsonl", to_check)
    write_lines(output / "failed.txt", corpus.failed)
    write_report(output, corpus, to_check)
    return corpus


def _records(pairs: Sequence[Pair], output: Path, config: CorpusConfig) -> list[Record]:
    """The record of each recording, in order, made now or by an earlier run."""
    model = locate(config.model)
    keys = [fingerprint(pair, model, config.segment, config.skip) for pair in pairs]
    found = [load_record(output, pair.name, key) for pair, key in zip(pairs, keys, strict=True)]
    missing = [index for index, record in enumerate(found) if record is None]
    if not missing:
        return [record for record in found if record is not None]
    Recognizer.load(config.model, config.device)  # a bad model is told of before the work begins
    with Progress("recordings", len(pairs), "recordings", len(pairs) - len(missing)) as progress:
        jobs = [(index, pairs[index], output, keys[index]) for index in missing]
        for index, record in _run(jobs, config):
            found[index] = record
            progress.step(note=record.name)
    return [record for record in found if record is not None]


Task = tuple[int, Pair, Path, dict[str, Any]]


def _run(tasks: Sequence[Task], config: CorpusConfig) -> Iterator[tuple[int, Record]]:
    """Runs tasks in worker processes, as they come; with one worker, in this process."""
    if config.workers <= 1 or len(tasks) == 1:
        worker = Worker(config)
        yield from map(worker, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in the middle of their work
    with ProcessPoolExecutor(config.workers, context, _begin, (config,)) as pool:
        futures = [pool.submit(_work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise InputError(
                "a worker process was killed, perhaps for want of memory; run the same command again, with fewer "
                "--workers: what is done stays done"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Worker:
    """A loaded model that makes records."""

    def __init__(self, config: CorpusConfig):
        self.config = config
        self.recognizer = Recognizer.load(config.model, config.device)

    def __call__(self, task: Task) -> tuple[int, Record]:
        index, pair, output, key = task
        return index, make_record(self.recognizer, pair, output, key, self.config.segment, self.config.skip)


_worker: Worker


def _begin(config: CorpusConfig) -> None:
    global _worker
    threading.Thread(target=_follow_parent, daemon=True).start()
    torch.set_num_threads(1)
    _worker = Worker(config)


def _follow_parent() -> None:
    """Ends this process when the one that started it is gone, even if that one was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(task: Task) -> tuple[int, Record]:
    return _worker(task)


def _filtered(
    records: list[Record], segments: list[Utterance], checked: dict[str, str] | None, config: FilterConfig
) -> Corpus:
    """Where there is too little to learn from, everything is kept, and the reason told."""
    try:
        judged, report = filter_segments(segments, checked, config)
    except InputError as error:
        if checked is not None:
            raise
        for utterance in segments:
            utterance.extra.update(odds=0.0, kept=True)
        return Corpus(records, segments, None, f"not filtered: {error}")
    return Corpus(records, judged, report)


def _sample(segments: Sequence[Utterance]) -> list[Utterance]:
    """A random part that stays the same when other segments come or go, as far as it can."""
    return sorted(segments, key=lambda utterance: random.Random(utterance.extra["id"]).random())[:TO_CHECK]


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def filter_manifest(
    recognizer: Recognizer, manifest: Path, output: Path, checked: Path | None, config: FilterConfig
) -> tuple[FilterReport, list[str]]:
    """Scores and judges a manifest; writes the kept and the rejected part and the filter's report.

    Returns:
        the report, and a line for each utterance that could not be scored.

    Raises:
        InputError: a bad manifest or checked subset, or too little to learn from.
    """
    utterances = [identified(utterance) for utterance in read_manifest(manifest)]
    truths = read_checked(checked) if checked is not None else None
    make_folder(output)
    scored, failed = [], []
    with Progress("scoring", len(utterances), "utterances") as progress:
        for result in score(recognizer, utterances):
            progress.step()
            scored.append(result) if isinstance(result, Utterance) else failed.append(str(result))
    judged, report = filter_segments(scored, truths, config)
    _write_judged(output, judged, report)
    return report, failed


def identified(utterance: Utterance) -> Utterance:
    """An utterance without an `id` is known by its file's name and its offset."""
    if "id" in utterance.extra:
        return utterance
    offset = f"@{utterance.offset:.3f}" if utterance.offset is not None else ""
    return replace(utterance, extra={"id": f"{utterance.audio_path.name}{offset}", **utterance.extra})


def _write_judged(output: Path, judged: Sequence[Utterance], report: FilterReport | None) -> None:
    write_manifest(output / "kept.jsonl", [each for each in judged if each.extra["kept"]])
    write_manifest(output / "rejected.jsonl", [each for each in judged if not each.extra["kept"]])
    if report is not None:
        _write(output / "filter.json", json.dumps(report.to_dict(), indent=1) + "\n")
        draw_filter(output / "filter.png", report)
    else:  # not those of an earlier run either
        (output / "filter.json").unlink(missing_ok=True)
        (output / "filter.png").unlink(missing_ok=True)
