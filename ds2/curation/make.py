"""A folder of long recordings and their transcripts in, a clean training set and a report out.

OUTPUT/
  recordings/NAME.json    the record of each recording, which a killed run continues from
  audio/NAME/FROM-TO.flac its segments, named after their milliseconds
  kept.jsonl, rejected.jsonl      manifests; failed.txt: recordings that could not be used, and why
  to_check.jsonl          segments drawn at random: correct their texts and pass the file as the checked subset
  filter.json, filter.png what the filter learnt
  report/index.html       a report with players
"""

import contextlib
import json
import logging
import multiprocessing
import random
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any

from ds2.curation.corrections import with_corrections
from ds2.curation.curated_corpus import CuratedCorpus
from ds2.curation.filter import FilterConfig, FilterReport, filter_segments, read_checked
from ds2.curation.finished_recordings import RecordingResult, load_record, record_fingerprint, utterances_of
from ds2.curation.pairs import Pair, find_pairs
from ds2.curation.plots import draw_filter
from ds2.curation.recording import RecordMaker
from ds2.curation.report import write_curation_report
from ds2.curation.score import score
from ds2.curation.segment import SegmentConfig
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.utils.devices import use_threads
from ds2.utils.errors import InputError, ParameterError
from ds2.utils.files import make_folder, remove_partials, write_lines, write_text
from ds2.utils.folder_lock import FolderLock
from ds2.utils.forks import die_with_parent
from ds2.utils.model_names import DEFAULT_MODEL, locate
from ds2.utils.progress import Progress

TO_CHECK = 200  # segments that a person is asked to check


@dataclass(frozen=True)
class CurationConfig:
    """How recordings become a training set."""

    model: str = DEFAULT_MODEL  # bundle, or its name in the package
    device: str = "cpu"
    workers: int = 1  # processes
    skip: bool = False  # the recordings may hold speech that is not in the texts
    language: str | None = None  # in which numbers of the texts are read, as by `align`
    checked: Path | None = None  # JSON Lines of id and correct text
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)


def make_corpus(folder: Path, output: Path, config: CurationConfig) -> CuratedCorpus:
    """Curates a folder of recordings, or continues to; a recording that cannot be used is reported and skipped.

    Raises:
        InputError: no recordings; a bad model or checked subset; the output cannot be written, or is in use.
    """
    pairs, checked = find_pairs(folder, output), read_checked(config.checked) if config.checked is not None else None
    make_folder(output)
    with FolderLock(output):
        remove_partials(output)
        records = _records(pairs, output.absolute(), config)
        segments = [utterance for record in records for utterance in utterances_of(record, output)]
        corpus = _filtered(records, segments, checked, config.filter)
        _write_judged(output, corpus.segments, corpus.report)
        to_check = _sample_to_check(corpus.segments)
        _write_sample(output / "to_check.jsonl", to_check, config.checked)
        write_lines(output / "failed.txt", corpus.failed)
        write_curation_report(output, corpus, to_check)
    return corpus


def _records(pairs: Sequence[Pair], output: Path, config: CurationConfig) -> list[RecordingResult]:
    """The record of each recording, in order, made now or in an earlier run."""
    model = locate(config.model)
    keys = [record_fingerprint(pair, model, config.segment, config.skip, config.language) for pair in pairs]
    found = [load_record(output, pair.name, key) for pair, key in zip(pairs, keys, strict=True)]
    missing = [index for index, record in enumerate(found) if record is None]
    if not missing:
        return [record for record in found if record is not None]
    Recognizer.load(config.model, config.device)  # raises InputError for a bad model before the work begins
    with Progress("recordings", len(pairs), "recordings", len(pairs) - len(missing)) as progress:
        tasks = [(index, pairs[index], keys[index]) for index in missing]
        for index, record in _run_tasks(tasks, output, config):
            found[index] = record
            progress.step(note=record.name)
    return [record for record in found if record is not None]


Task = tuple[int, Pair, dict[str, Any]]  # the number of a recording, and what load_record compares


def _run_tasks(tasks: Sequence[Task], output: Path, config: CurationConfig) -> Iterator[tuple[int, RecordingResult]]:
    """Runs tasks in worker processes, in the order in which they end; with one worker, in this process."""
    if config.workers <= 1 or len(tasks) == 1:
        worker = _record_maker(output, config)
        yield from ((index, worker(pair, key)) for index, pair, key in tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of torch's threads
    with ProcessPoolExecutor(config.workers, context, _begin_worker, (output, config, context.Lock())) as pool:
        with _interrupts_later():  # which the workers inherit: this process ends them
            futures = [pool.submit(_work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.kill()
            raise
        except BrokenProcessPool as error:
            raise ParameterError(
                "workers",
                "a worker process was killed, perhaps because memory ran out; run the same command with fewer workers "
                "to continue",
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Holds Ctrl-C back while the block runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _record_maker(output: Path, config: CurationConfig) -> RecordMaker:
    """Loads the model again; what is to be said of it was said when it was checked."""
    logger = logging.getLogger("ds2.recognition")
    logger.setLevel(logging.ERROR)
    try:
        recognizer = Recognizer.load(config.model, config.device)
    finally:
        logger.setLevel(logging.NOTSET)
    return RecordMaker(recognizer, output, config.segment, config.skip, config.language)


_worker: RecordMaker


def _begin_worker(output: Path, config: CurationConfig, speaker: Lock) -> None:
    """The first worker takes the lock `speaker` and speaks for all: each has the same to say of this machine."""
    global _worker
    parent = multiprocessing.parent_process()
    die_with_parent(parent.pid if parent else None)
    use_threads(1)  # also of NumPy: otherwise each worker spins on all cores
    level = logging.WARNING if speaker.acquire(block=False) else logging.ERROR
    logging.basicConfig(level=level, format="ds2: %(message)s")
    _worker = _record_maker(output, config)


def _work(task: Task) -> tuple[int, RecordingResult]:
    index, pair, key = task
    return index, _worker(pair, key)


def _filtered(
    records: list[RecordingResult], segments: list[Utterance], checked: dict[str, str] | None, config: FilterConfig
) -> CuratedCorpus:
    """Filters the segments; if there is too little to learn from, keeps everything and says why in the corpus."""
    try:
        judged, report = with_corrections(*filter_segments(segments, checked, config), checked)
    except InputError as error:
        if checked is not None:
            raise
        for utterance in segments:
            utterance.extra.update(odds=0.0, kept=True)
        return CuratedCorpus(records, segments, None, f"not filtered: {error}")
    return CuratedCorpus(records, judged, report)


def _write_sample(path: Path, to_check: Sequence[Utterance], checked: Path | None) -> None:
    """Writes the segments to check, unless somebody has corrected the texts of an earlier sample in its own file."""
    if checked is None or checked.resolve() != path.resolve():
        write_manifest(path, to_check)


def _sample_to_check(segments: Sequence[Utterance]) -> list[Utterance]:
    """A random sample that changes as little as possible when segments are added or removed."""
    return sorted(segments, key=lambda utterance: random.Random(utterance.extra["id"]).random())[:TO_CHECK]


def filter_manifest(
    recognizer: Recognizer, manifest: Path, output: Path, checked: Path | None, config: FilterConfig
) -> tuple[FilterReport, list[str]]:
    """Scores and filters a manifest; writes the kept and the rejected part and the filter's report.

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
    if failed and not scored:
        raise InputError(failed[0] if len(failed) == 1 else f"{failed[0]}; and {len(failed) - 1} more cannot be used")
    judged, report = with_corrections(*filter_segments(scored, truths, config), truths)
    _write_judged(output, judged, report)
    return report, failed


def identified(utterance: Utterance) -> Utterance:
    """The utterance with an `id`: where it has none, the name of its file and its offset."""
    if "id" in utterance.extra:
        return utterance
    offset = f"@{utterance.offset:.3f}" if utterance.offset is not None else ""
    return replace(utterance, extra={"id": f"{utterance.audio_path.name}{offset}", **utterance.extra})


def _write_judged(output: Path, judged: Sequence[Utterance], report: FilterReport | None) -> None:
    write_manifest(output / "kept.jsonl", [each for each in judged if each.extra["kept"]])
    write_manifest(output / "rejected.jsonl", [each for each in judged if not each.extra["kept"]])
    if report is not None:
        write_text(output / "filter.json", json.dumps(asdict(report), indent=1) + "\n")
        draw_filter(output / "filter.png", report)
    else:  # remove those of an earlier run
        (output / "filter.json").unlink(missing_ok=True)
        (output / "filter.png").unlink(missing_ok=True)
