"""A model process: takes commands of many streams, runs the model in batches, returns results.

An error in a step fails only the streams that cause it. Without memory the process ends: the server starts another.
"""

import contextlib
import gc
import logging
import signal
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.compaction import compact
from ds2.decoder.config import BeamConfig
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.decoder.prefixes import begin
from ds2.model.config import UNENDED
from ds2.recognition.chunks import Chunk
from ds2.recognition.recognizer import Recognizer
from ds2.serve.dispatch import DispatchConfig, Dispatcher, Full, Work
from ds2.serve.messages import (
    Alternatives,
    Close,
    Command,
    End,
    Event,
    Failed,
    Open,
    Ready,
    Report,
    Result,
    Sound,
    Step,
    StreamConfig,
    WorkerConfig,
)
from ds2.serve.worker_stream import ALTERNATIVES, ClientStream, Setup
from ds2.utils.devices import use_threads
from ds2.utils.errors import InputError

log = logging.getLogger("ds2.serve")
PATIENT = 8  # final results that may wait for each one that is made between two batches
WORDLESS_BEAM_WIDTH = 16  # for a bundle without words, which is decoded greedily elsewhere


class Worker:
    """The loop of a model process, and its state."""

    def __init__(self, setup: Setup, config: DispatchConfig):
        self.setup = setup
        self.dispatcher: Dispatcher[Chunk] = Dispatcher(config.make(), config.queue_chunks)
        self.streams: dict[int, ClientStream] = {}
        self.slots: dict[int, int] = {}
        self.free = list(range(setup.model.slots))
        self.ended: deque[int] = deque()  # streams with segments that wait for their final results

    def run(self, connection: "Connection[Any, Any]") -> None:
        """Serves until the server closes the connection."""
        while True:
            wake = self.dispatcher.wake()
            timeout = None if wake is None else max(0.0, wake - time.monotonic())
            timeout = 0.0 if self.ended else timeout
            results: list[Result] = []
            while connection.poll(timeout):
                for command in connection.recv():
                    results += self.obey(command, time.monotonic())
                timeout = 0.0
            batch = self.dispatcher.take(time.monotonic())
            # Every command is answered, so that the server sees that the process is alive.
            if results or not (batch or self.ended):
                connection.send(Report(results))
            if batch:
                connection.send(self.work(batch, time.monotonic()))
            for _ in range(self.due()):
                connection.send(Report(self.conclude()))

    def obey(self, command: Command, now: float) -> list[Result]:
        """Takes a command; returns the results that need no step."""
        number = command.stream
        if isinstance(command, Open):
            return self._open(command)
        if number not in self.streams:  # it has failed, and the server does not know yet
            return []
        if isinstance(command, Close):
            self._forget(number)
            return []
        stream = self.streams[number]
        if not stream.model_streams:  # its sound has ended, and only final results are to come
            return []
        if isinstance(command, Alternatives):
            stream.alternatives = command.most
            return []
        # Sound becomes chunks, which wait for a step; only what ends without one has a result now.
        try:
            if isinstance(command, Sound):
                chunks, events = stream.feed(command.data), []
            else:
                chunks, events = stream.end(command.last), stream.ends()
            for chunk in chunks:
                self.dispatcher.add(Work(number, len(chunk.samples), chunk, now))
        except InputError as error:
            return [self._fail(number, str(error))]
        except Full as error:
            return [self._fail(number, f"sound came faster than it can be recognised: {error}")]
        return [self._result(number, 0.0, events)] if events or stream.results else []

    def work(self, batch: Sequence[Work[Chunk]], now: float) -> Report:
        """Runs a batch."""
        results = self._run(batch, now)
        frames = batch[0].payload.frames
        waited = now - min(work.arrived for work in batch)
        return Report(results, Step(len(batch), frames, time.monotonic() - now, waited, len(self.dispatcher)))

    def _run(self, batch: Sequence[Work[Chunk]], now: float) -> list[Result]:
        try:
            log_probs = self._step(batch)
        except MemoryError:
            raise
        except Exception:
            # One stream must not end the others: each is stepped alone, and only the one that fails again ends.
            if len(batch) > 1:
                log.exception("a step of %d streams failed; it is repeated stream by stream", len(batch))
                return [result for work in batch for result in self._run([work], now)]
            log.exception("a step failed")
            return [self._fail(batch[0].stream, "the model failed on this stream")]
        finite = np.isfinite(log_probs).all((1, 2)).tolist()
        rows = zip(batch, log_probs, finite, strict=True)
        return [
            self._decode(work, found, now)
            if good
            else self._fail(work.stream, "the model returned values that are not finite")
            for work, found, good in rows
        ]

    def _step(self, batch: Sequence[Work[Chunk]]) -> np.ndarray:
        slots = np.array([self.slots[work.stream] for work in batch])
        positions = np.array([work.payload.position for work in batch])
        lengths = np.array([work.payload.length for work in batch])
        return self.setup.model.advance(slots, positions, lengths, np.stack([work.payload.samples for work in batch]))

    def _decode(self, work: Work[Chunk], rows: np.ndarray, now: float) -> Result:
        number = work.stream
        stream, chunk = self.streams[number], work.payload
        try:
            events = stream.advance(chunk, rows, now)
        except MemoryError:
            raise
        except Exception:
            log.exception("decoding failed")
            return self._fail(number, "decoding of this stream failed")
        seconds = chunk.frames * self.setup.model.config.frontend.hop_seconds
        return self._result(number, seconds, events)

    def due(self) -> int:
        """Final results to make before the next batch: one, for which its chunks wait, or more where many pile up."""
        return min(len(self.ended), 1 + len(self.ended) // PATIENT)

    def conclude(self) -> list[Result]:
        """The final result of the segment that has waited longest, and what waited behind it."""
        number = self.ended.popleft()
        try:
            events = self.streams[number].conclude()
        except MemoryError:
            raise
        except Exception:
            log.exception("a final result failed")
            return [self._fail(number, "decoding of this stream failed")]
        return [self._result(number, 0.0, events)]

    def _result(self, number: int, seconds: float, events: list[Event]) -> Result:
        """What a stream gives now; the stream ends with its last result, or is in turn for a final one."""
        stream = self.streams[number]
        if stream.over:
            self._forget(number)
        elif stream.results and number not in self.ended:
            self.ended.append(number)
        return Result(number, seconds, events)

    def _open(self, command: Open) -> list[Result]:
        if not self.free:
            return [Result(command.stream, 0.0, [Failed("all places of this model process are taken")])]
        self.slots[command.stream] = self.free.pop()
        self.streams[command.stream] = ClientStream(self.setup, command.config)
        return []

    def _fail(self, number: int, reason: str) -> Result:
        self._forget(number)
        return Result(number, 0.0, [Failed(reason)])

    def _forget(self, number: int) -> None:
        self.dispatcher.drop(number)
        with contextlib.suppress(ValueError):
            self.ended.remove(number)
        del self.streams[number]
        self.free.append(self.slots.pop(number))


def load_setup(config: WorkerConfig) -> Setup:
    """Loads the model of a worker.

    Raises:
        InputError: the bundle cannot be read, or cannot stream.
    """
    where = config.device, config.decoder, config.engine, config.precision
    recognizer = Recognizer.load(config.model, *where, live=True)
    beam = recognizer.beam or BeamDecoder(BeamConfig(WORDLESS_BEAM_WIDTH))
    phones = isinstance(beam, PronouncingDecoder)
    try:
        model = recognizer.model.slots(config.slots, config.precision, phones)
    except ValueError as error:
        raise InputError(f"{config.model}: {error}") from error
    competitors = beam.config.nbest - 1  # as offline
    return Setup(model, beam.with_nbest(ALTERNATIVES), recognizer.builder, config.live, competitors)


def warm_up_worker(setup: Setup, most: int) -> None:
    """Runs steps of each shape at several batch sizes, and the search: the first run of each is slow."""
    worker = Worker(setup, DispatchConfig())
    for frames in sorted({setup.steps.frames, setup.steps.long_frames}):
        size = 1
        while size <= min(most, setup.model.slots):
            numbers, samples = np.arange(size), np.zeros((size, setup.steps.samples(frames)), np.float32)
            setup.model.advance(numbers, np.zeros_like(numbers), np.full_like(numbers, UNENDED), samples)
            size *= 2
    worker.obey(Open(0, StreamConfig(stable=True)), 0.0)
    worker.obey(Sound(0, bytes(2 * 8000)), 0.0)
    worker.obey(End(0), 0.0)
    while batch := worker.dispatcher.take(0.0):
        worker.work(batch, 0.0)
    while worker.ended:
        worker.conclude()
    compact(begin(0))  # only a long stream needs it


def serve_model(config: WorkerConfig, connection: "Connection[Any, Any]") -> None:
    """Loads the model, reports that it is ready, serves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends this process, after its streams
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    use_threads(1)
    try:
        try:
            setup = load_setup(config)
            warm_up_worker(setup, config.dispatch.batch_streams)
            gc.freeze()  # each search for garbage among what the model holds would stop all streams for 10 ms
        except InputError as error:
            connection.send(error)
            return
        connection.send(Ready(setup.model.config.frontend.sample_rate))
        Worker(setup, config.dispatch).run(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the server has ended
        return
    except MemoryError:
        log.critical("out of memory: this model process ends, with its streams, and is started again")
