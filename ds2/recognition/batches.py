"""The windows of many recordings run through the model in batches of like length, while what it gave is searched."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic

import numpy as np

from ds2.recognition import windows
from ds2.recognition.windows import Collector, Cutter, Found, Job, Result, Source, Window
from ds2.utils.resources import give_back_memory, share_freed_memory

Cut = tuple[Job[Source, Found], int, Window]  # a window and which one of its recording it is


class Batches(Generic[Source, Found]):
    """Runs the windows of many recordings in batches; memory is bounded by the audio of GROUP_SECONDS or of a batch.

    batch   1      2      3
    model   =====  =====  =====
    search         =====  =====  =====      a thread of its own for the model: both take what the other leaves idle
    """

    def __init__(
        self,
        cutter: Cutter,
        model: Callable[[list[Window]], list[np.ndarray]],
        on_audio: Callable[[float], object],
        collect: Callable[[float], Collector[Found]],
    ):
        """Nothing has been read yet.

        Args:
            model: windows -> (T, V) log-probabilities of each; called by another thread.
            on_audio: gets the seconds of audio of each batch.
            collect: gives the collector of a recording of so many seconds.
        """
        self.cutter, self.model, self.on_audio, self.collect = cutter, model, on_audio, collect
        self.group: list[Cut[Source, Found]] = []
        self.running: tuple[list[Cut[Source, Found]], Future[list[np.ndarray]]] | None = None

    def results(self, sources: Iterable[Source]) -> Iterator[Result[Source, Found]]:
        """Of each recording, in the order given: the source, its duration, what was collected or went wrong."""
        share_freed_memory()
        jobs: list[Job[Source, Found]] = []
        # Samples in the group.
        held, most = 0, max(windows.GROUP_SECONDS, self.cutter.batch_seconds) * self.cutter.sample_rate
        with ThreadPoolExecutor(1) as ahead:
            for source in sources:
                # Windows are collected until there are enough to sort by length.
                job = Job[Source, Found](source)
                jobs.append(job)
                for number, window in enumerate(self.cutter.windows(job)):
                    job.windows += 1
                    self.group.append((job, number, window))
                    held += len(window.samples)
                    if held >= most:
                        self._run(ahead)
                        held = 0
                    elif self.running is not None and self.running[1].done():
                        self._collect()  # what is found need not wait for the next batch
                # Jobs end in the order of their sources, however their windows were batched.
                job.read = True
                while jobs and jobs[0].done:
                    yield jobs.pop(0).result
            self._run(ahead)
            self._collect()
        for job in jobs:
            yield job.result
        give_back_memory()

    def _run(self, ahead: ThreadPoolExecutor) -> None:
        """Runs windows of like length together; while the model runs, the jobs get what it gave for those before."""
        # The longest window sets how many fit: all others are padded to it.
        ordered = sorted(self.group, key=lambda item: len(item[2].samples), reverse=True)
        self.group.clear()
        while ordered:
            size = max(1, int(self.cutter.batch_seconds * self.cutter.sample_rate / len(ordered[0][2].samples)))
            batch, ordered = ordered[:size], ordered[size:]
            next_one = batch, ahead.submit(self.model, [window for _, _, window in batch])
            self._collect()
            self.running = next_one

    def _collect(self) -> None:
        """Hands the log-probabilities of the batch that is running, if there is one, to its jobs."""
        if self.running is None:
            return
        (batch, future), self.running = self.running, None
        found = future.result()
        frames = sum(map(len, found))
        for job, number, _ in batch:
            job.take(number, found.pop(0), self.collect)  # no longer held here: they are large
        self.on_audio(frames * self.cutter.frame_samples / self.cutter.sample_rate)
