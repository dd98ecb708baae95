"""A load of live streams: clients send real recordings in real time and measure when results come.

Latency is defined as in the paper: from the end of the utterance, when the client has sent its last sound, to the final
result.
"""

import asyncio
import json
import math
import random
import statistics
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import websockets

from ds2.audio.tensors import read_audio
from ds2.data.manifest import read_manifest
from ds2.metrics import wer
from ds2.recognition.readings import both_forms, normal_form
from ds2.text import is_ideograph
from ds2.utils.errors import ParameterError

MESSAGE_SECONDS = 0.1  # of sound, as from a microphone
FIRST_SECONDS = 2.0  # in which the streams begin, one after the other; not measured
TIMEOUT_SECONDS = 30.0  # for a final result


@dataclass(frozen=True)
class Recording:
    """The audio that a client sends, and its reference text."""

    data: bytes  # 16-bit samples
    sample_rate: int  # Hz
    text: str

    @property
    def seconds(self) -> float:
        """Seconds of sound."""
        return len(self.data) / 2 / self.sample_rate


@dataclass
class LoadResult:
    """The measurements of a load of so many streams."""

    streams: int
    latencies: list[float] = field(default_factory=list)  # seconds from the end of an utterance to its final result
    shown: list[float] = field(default_factory=list)  # seconds from the end of a word to the first result with it
    references: list[str] = field(default_factory=list)
    hypotheses: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    batches: dict[float, float] = field(default_factory=dict)  # size: number of steps

    def percentile(self, fraction: float) -> float:
        """Milliseconds within which this fraction (0 to 1) of the final results came; inf for a stream that failed."""
        values = sorted([*self.latencies, *[float("inf")] * len(self.failures)])
        return 1000 * values[min(len(values) - 1, int(fraction * len(values)))] if values else float("inf")

    @property
    def batch_probabilities(self) -> dict[int, float]:
        """Probability (0 to 1) that a chunk runs in a batch of this size, as in the paper's figure.

        A batch of 20 serves 20 chunks, and so counts as often. Sizes above 20 are upper bounds of the server's buckets.
        """
        chunks = {int(size): size * count for size, count in self.batches.items() if count}
        return {size: count / sum(chunks.values()) for size, count in chunks.items()}

    @property
    def batched(self) -> float:
        """Fraction (0 to 1) of the chunks that ran in batches of 2 or more."""
        return sum(share for size, share in self.batch_probabilities.items() if size > 1)

    @property
    def word_error_rate(self) -> float:
        """Of all utterances, NaN without any; in the normal form where the server writes no capitals."""
        if not self.references:
            return float("nan")
        if any(text != text.lower() for text in self.hypotheses):
            return wer(self.references, self.hypotheses)
        language = "zh" if any(map(is_ideograph, "".join(self.references))) else "en"
        pairs = list(map(both_forms(language), self.hypotheses, map(normal_form(language), self.references)))
        return wer([reference for _, reference in pairs], [text for text, _ in pairs])

    def summary(self) -> dict[str, float | dict[int, float]]:
        """The figures of a table: times in milliseconds, fractions and probabilities from 0 to 1."""
        return {
            "streams": self.streams,
            "utterances": len(self.latencies),
            "median": self.percentile(0.5),
            "98%": self.percentile(0.98),
            "max": self.percentile(1.0),
            "word shown after": 1000 * statistics.median(self.shown) if self.shown else float("nan"),
            "WER": self.word_error_rate,
            "in batches of 2 or more": self.batched,
            "batch sizes": self.batch_probabilities,
            "failures": len(self.failures),
        }


def load_recordings(manifest: Path) -> list[Recording]:
    """Reads the utterances of a manifest as recordings.

    Raises:
        InputError: the manifest or one of its recordings cannot be read.
    """
    found = []
    for utterance in read_manifest(manifest):
        samples, rate = read_audio(utterance.audio_path, None, utterance.offset or 0.0, utterance.duration)
        data = (samples.numpy() * 32767).round().astype("<i2").tobytes()
        found.append(Recording(data, rate, utterance.text))
    return found


def connection(url: str, key: str) -> websockets.connect:
    """A connection to a server, with its API key if it wants one."""
    return websockets.connect(url, compression=None, open_timeout=TIMEOUT_SECONDS, additional_headers=_headers(key))


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


async def check_server(url: str, key: str = "") -> None:
    """Connects once.

    Raises:
        ParameterError: nothing answers at this address, or not as a server of live streams, or not without another key.
    """
    try:
        async with connection(url, key):
            pass
    except websockets.InvalidStatus as error:
        remedy = "give one of its API keys" if error.response.status_code == 401 else str(error)
        raise ParameterError("key", f"{url}: the server refuses the connection: {remedy}") from error
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        reason = "connection refused" if isinstance(error, ConnectionRefusedError) else str(error)
        raise ParameterError("url", f"{url}: no server answers here ({reason}); start one: ds2 serve") from error


async def apply_load(
    url: str, recordings: Sequence[Recording], streams: int, seconds: float, key: str = ""
) -> LoadResult:
    """Keeps `streams` streams open for `seconds` at a server such as ws://127.0.0.1:2700."""
    outcome = LoadResult(streams)
    before = _batches(url, key)
    until = time.monotonic() + FIRST_SECONDS + seconds
    connect = partial(connection, url, key)
    clients = (_client(connect, recordings, outcome, number / streams, until, number) for number in range(streams))
    await asyncio.gather(*clients)
    outcome.batches = {size: count - before.get(size, 0.0) for size, count in _batches(url, key).items()}
    return outcome


async def _client(
    connect: Callable[[], websockets.connect],
    recordings: Sequence[Recording],
    outcome: LoadResult,
    phase: float,
    until: float,
    seed: int,
) -> None:
    """One speaker: one utterance after the other, each over a new connection."""
    generator = random.Random(seed)
    begin = time.monotonic() + FIRST_SECONDS
    await asyncio.sleep(phase * FIRST_SECONDS)
    while time.monotonic() < until:
        recording = generator.choice(recordings)
        try:
            async with connect() as socket:
                speech = _Speech(socket, recording)
                await asyncio.wait_for(speech.run(), recording.seconds + TIMEOUT_SECONDS)
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            outcome.failures.append(str(error) or type(error).__name__)
            await asyncio.sleep(1.0)
            continue
        if speech.begun >= begin:
            speech.report(outcome)


class _Speech:
    """One recording that a client sends, and its results."""

    def __init__(self, socket: websockets.ClientConnection, recording: Recording):
        self.socket, self.recording = socket, recording
        self.begun = self.ended = 0.0
        self.finals: list[dict] = []
        self.word_counts: list[tuple[float, int]] = []  # when a result first had so many words
        self.last = 0.0

    async def run(self) -> None:
        await self.socket.send(json.dumps({"config": {"sample_rate": self.recording.sample_rate, "push": 1}}))
        reader = asyncio.create_task(self._read())
        self.begun = time.monotonic()
        rate = self.recording.sample_rate
        size = round(MESSAGE_SECONDS * rate) * 2
        for number, start in enumerate(range(0, len(self.recording.data), size)):
            sound = self.recording.data[start : start + size]
            # A microphone delivers the sound of a message at its end.
            spoken = self.begun + number * MESSAGE_SECONDS + len(sound) / 2 / rate
            await asyncio.sleep(max(0.0, spoken - time.monotonic()))
            await self.socket.send(sound)
        self.ended = time.monotonic()
        await self.socket.send('{"eof": 1}')
        await reader

    async def _read(self) -> None:
        words = 0
        async for message in self.socket:
            now, result = time.monotonic(), json.loads(message)
            if "error" in result:
                raise TimeoutError(result["error"])
            text = " ".join(
                [final["text"] for final in self.finals] + [result.get("partial") or result.get("text", "")]
            )
            if len(text.split()) > words:
                words = len(text.split())
                self.word_counts.append((now, words))
            if "text" in result:
                self.finals.append(result)
                self.last = now
        self.last = max(self.last, self.ended) if self.last > self.ended else time.monotonic()

    def report(self, outcome: LoadResult) -> None:
        outcome.latencies.append(self.last - self.ended)
        outcome.references.append(self.recording.text)
        outcome.hypotheses.append(" ".join(final["text"] for final in self.finals if final["text"]))
        words = [word for final in self.finals for word in final.get("result", [])]
        for when, count in self.word_counts:
            if count <= len(words):
                outcome.shown.append(when - self.begun - words[count - 1]["end"])


def _batches(url: str, key: str) -> dict[float, float]:
    """Batch size (upper bound of the histogram): steps, from /metrics; empty for a server of another kind."""
    try:
        asked = urllib.request.Request(url.replace("ws", "http", 1) + "/metrics", headers=_headers(key))
        with urllib.request.urlopen(asked) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    buckets = [line.replace('"', " ").split() for line in lines if line.startswith("ds2_batch_size_bucket")]
    counts = np.diff([float(bucket[-1]) for bucket in buckets], prepend=0.0)
    sizes = [float(bucket[1]) for bucket in buckets]
    return {size: float(count) for size, count in zip(sizes, counts, strict=True) if math.isfinite(size)}


def load_table(outcomes: Sequence[LoadResult]) -> list[str]:
    """Markdown, a row for each outcome."""
    rows = ["| streams | utterances | median, ms | 98 % | max | word shown after, ms | WER | in batches of 2 or more |"]
    rows.append("|---|---|---|---|---|---|---|---|")
    for outcome in outcomes:
        facts = outcome.summary()
        in_batches = facts["in batches of 2 or more"]
        failed = f", {outcome.failures[0]} ({len(outcome.failures)} times)" if outcome.failures else ""
        rows.append(
            f"| {outcome.streams} | {len(outcome.latencies)}{failed} | {facts['median']:.0f} | {facts['98%']:.0f} | "
            f"{facts['max']:.0f} | {facts['word shown after']:.0f} | {facts['WER']:.2%} | {in_batches:.0%} |"
        )
    return rows
