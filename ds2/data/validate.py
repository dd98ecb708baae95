"""Finds what is wrong with a corpus: each recording and transcript, then what its parts have in common."""

import hashlib
import itertools
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ds2.audio.files import read_audio_array
from ds2.data.columnar import durations, values
from ds2.data.corpus_rows import ROUNDED
from ds2.data.manifest import write_manifest
from ds2.data.near_duplicates import alike_pairs
from ds2.data.utterance import Utterance
from ds2.utils.errors import InputError
from ds2.utils.files import atomic_write, make_folder

THREADS = 2  # decoding releases Python's lock
AT_ONCE = 1024  # utterances that wait for a thread
OUTLINE_POINTS = 100  # of the loudness of an utterance, that identify copies in another coding
SAME_OUTLINE = 0.995  # correlation of two outlines
SAME_DURATION = 0.06  # seconds that codecs add at the ends
UNSEEN = ("Cc", "Cn", "Co", "Cs")  # categories of characters that nobody sees: controls, unassigned, surrogates


@dataclass(frozen=True)
class ValidateConfig:
    """What counts as wrong."""

    duration_error: float = ROUNDED  # seconds between what the manifest and the file say
    silent: float = -60.0  # dB below full scale, of the mean power
    clipped: float = 0.01  # share of samples at full scale
    fastest: float = 30.0  # characters per second; above it the text or the sample rate is wrong
    slowest: float = 0.5  # characters per second in utterances of more than 5 seconds
    frame_seconds: float = 0.02  # output frame of the model: CTC needs one for each character, and one between equals


@dataclass(frozen=True)
class Finding:
    """Something wrong, with an utterance or between two of them."""

    kind: str
    place: str  # "manifest:line"
    message: str


@dataclass(frozen=True)
class Examined:
    """The result of reading an utterance's audio."""

    findings: list[Finding]
    digest: bytes = b""  # of the samples; empty: none, or a silence, which is like any other
    outline: np.ndarray | None = None  # (OUTLINE_POINTS,) of unit length; None: no audio, or too uniform to identify it


@dataclass(frozen=True)
class Examination:
    """What is known of all utterances: some 230 bytes of each.

    Attributes:
        findings: of each utterance by itself.
        digests: (N, 2) int64, of the samples; zeros where there is none.
        outlines: (N, OUTLINE_POINTS) float16, of unit length; zeros where there is none.
        sound: (N,) bool: nothing was found in the utterance by itself.
    """

    utterances: Sequence[Utterance]
    findings: list[Finding]
    digests: np.ndarray
    outlines: np.ndarray
    sound: np.ndarray


def examine_all(
    utterances: Sequence[Utterance], config: ValidateConfig, step: Callable[[], None] = lambda: None
) -> Examination:
    """Examines every utterance; calls `step` after each."""
    findings: list[Finding] = []
    digests = np.zeros((len(utterances), 2), np.int64)
    outlines = np.zeros((len(utterances), OUTLINE_POINTS), np.float16)
    sound = np.zeros(len(utterances), bool)
    rows = enumerate(utterances)
    with ThreadPoolExecutor(THREADS) as threads:
        while some := list(itertools.islice(rows, AT_ONCE)):
            results = threads.map(lambda row: examine(row[1], config), some)
            for (number, _), result in zip(some, results, strict=True):
                findings += result.findings
                sound[number] = not result.findings
                if result.digest:
                    digests[number] = np.frombuffer(result.digest, np.int64)
                if result.outline is not None:
                    outlines[number] = result.outline
                step()
    return Examination(utterances, findings, digests, outlines, sound)


def examine(utterance: Utterance, config: ValidateConfig) -> Examined:
    """Reads the audio and compares it with the manifest."""
    findings = list(_text_findings(utterance, config))

    def found(kind: str, message: str) -> None:
        findings.append(Finding(kind, utterance.place, message))

    try:
        path, offset, duration, channel = utterance.span
        samples, rate = read_audio_array(path, None, offset, duration, channel)
    except InputError as error:
        found("unreadable", str(error))
        return Examined(findings)
    seconds = len(samples) / rate
    if abs(seconds - utterance.duration) > config.duration_error:
        found("duration", f"the manifest says {utterance.duration:.2f} s, the audio has {seconds:.2f} s")
    level = 10 * math.log10(float(np.square(samples).mean()) + 1e-12)
    if level < config.silent:
        found("silent", f"mean power {level:.0f} dB below full scale")
    clipped = float((np.abs(samples) >= 0.999).mean())
    if clipped > config.clipped:
        found("clipped", f"{clipped:.1%} of the samples are at full scale")
    outline = _outline(samples)
    if outline is None and level < config.silent:
        return Examined(findings)
    return Examined(findings, hashlib.blake2b(samples.tobytes(), digest_size=16).digest(), outline)


def duplicates(examined: Examination) -> Iterator[Finding]:
    """Audio that occurs twice: the same samples, or the same loudness over time (a copy in another coding or level).

    Of the utterances with a sound all but one are named, so that one of each stays where those named are left out: the
    last one without a finding of its own. So of a training set, which comes first, and a test set the latter keeps it.
    """
    there = np.flatnonzero(examined.digests.any(1))
    there = there[np.argsort(examined.sound[there], kind="stable")]  # the one that stays comes last
    _, group = np.unique(examined.digests[there], axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    there, same = there[order], np.diff(group.ravel()[order]) == 0  # with the samples of the next one
    for here, other in sorted(zip(there[:-1][same].tolist(), there[1:][same].tolist(), strict=True)):
        yield _pair("duplicate audio", examined.utterances[here], examined.utterances[other], "the same samples")
    kept = there[~np.append(same, False)] if len(there) else there
    yield from _near_duplicates(examined, kept[examined.outlines[kept].any(1)])


def leaks(splits: Mapping[str, Sequence[Utterance]]) -> Iterator[Finding]:
    """Transcripts and speakers of the first split, the training set, that occur in another.

    The finding names the utterance of the first split; for a speaker, the first one, and how many each split has.
    """
    (first, training), *others = splits.items()
    own = Counter(values(training, "speaker"))
    for name, utterances in others:
        texts = {text: number for number, text in enumerate(values(utterances, "text")) if text.strip()}
        speakers = {speaker: number for number, speaker in enumerate(values(utterances, "speaker")) if speaker}
        theirs = Counter(values(utterances, "speaker"))
        pairs = zip(values(training, "text"), values(training, "speaker"), strict=True)
        for number, (text, speaker) in enumerate(pairs):
            if speaker and (other := speakers.pop(speaker, None)) is not None:
                why = f"{speaker!r} speaks in {own[speaker]} utterances of {first} and {theirs[speaker]} of {name}"
                yield _pair("leaking speaker", training[number], utterances[other], why)
            if text in texts:
                yield _pair("leaking transcript", training[number], utterances[texts[text]], repr(text[:60]))


def take_wrong_line(findings: list[Finding], place: str, error: InputError) -> None:
    """Adds the error of a line that `read_manifest` refuses to the findings."""
    findings.append(Finding("wrong line", place, str(error).removeprefix(f"{place}: ")))


def write_findings(path: Path, findings: Iterable[Finding]) -> None:
    """JSON Lines with kind, place and message."""
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for finding in findings:  # which may name files whose names are not UTF-8; JSON reads \\udcff back
            file.write(json.dumps(asdict(finding), ensure_ascii=False) + "\n")


def write_clean(folder: Path, splits: Mapping[str, Sequence[Utterance]], bad: Collection[str]) -> None:
    """Writes a manifest of each split, by its name, without the utterances at the places `bad`.

    Raises:
        InputError: nothing of a split would be left, or a manifest cannot be written.
    """
    for name, split in splits.items():
        kept = [utterance for utterance in split if utterance.place not in bad]
        if not kept:
            raise InputError(f"{name}: all utterances have findings, and no clean manifest is written")
        make_folder(folder)
        write_manifest(folder / Path(name).name, kept)


def _text_findings(utterance: Utterance, config: ValidateConfig) -> Iterator[Finding]:
    text = utterance.text.strip()
    if not text:
        yield Finding("empty text", utterance.place, "no transcript")
        return
    if strange := sorted({mark for mark in text if mark == "\ufffd" or unicodedata.category(mark) in UNSEEN}):
        listed = ", ".join(f"U+{ord(mark):04X}" for mark in strange[:5])
        yield Finding("damaged text", utterance.place, f"it holds {listed}: was it read in a wrong encoding?")
    rate = len(text) / utterance.duration
    if rate > config.fastest:
        yield Finding("too fast", utterance.place, f"{rate:.0f} characters in a second")
    elif rate < config.slowest and utterance.duration > 5:
        yield Finding("too slow", utterance.place, f"{len(text)} characters in {utterance.duration:.1f} s")
    frames = int(utterance.duration / config.frame_seconds)
    needed = len(text) + sum(one == other for one, other in itertools.pairwise(text))
    if needed > frames:
        yield Finding("too short for CTC", utterance.place, f"{needed} frames needed, {frames} there")


def _outline(samples: np.ndarray) -> np.ndarray | None:
    """Loudness over time, centred, of unit length; None for sounds too short or too uniform."""
    edges = np.linspace(0, len(samples), OUTLINE_POINTS + 1).astype(int)
    if len(samples) < 10 * OUTLINE_POINTS:
        return None
    energy = np.add.reduceat(np.square(samples, dtype=np.float64), edges[:-1]) / np.diff(edges)
    outline = np.sqrt(energy) - np.sqrt(energy).mean()
    norm = np.linalg.norm(outline)
    return outline / norm if norm > 1e-6 else None


def _near_duplicates(examined: Examination, numbers: np.ndarray) -> Iterator[Finding]:
    """Of the utterances of these numbers."""
    seconds = durations(examined.utterances)[numbers]
    pairs = alike_pairs(examined.outlines[numbers], seconds, SAME_OUTLINE, SAME_DURATION)
    for pair in sorted(sorted(numbers[[*each]].tolist()) for each in pairs):
        here, there = sorted(pair, key=lambda number: bool(examined.sound[number]))  # stable: the later one stays
        why = "the same sound in another coding"
        yield _pair("duplicate audio", examined.utterances[here], examined.utterances[there], why)


def _pair(kind: str, here: Utterance, there: Utterance, why: str) -> Finding:
    return Finding(kind, here.place, f"also in {there.place}: {why}")
