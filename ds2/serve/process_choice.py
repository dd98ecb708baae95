"""All model processes: which of them gets the next stream, and whether any can take one."""

import asyncio

from ds2.serve.messages import StreamConfig, WorkerConfig
from ds2.serve.model_process import ModelProcess, Timeouts
from ds2.serve.prometheus import Metrics
from ds2.serve.stream_handle import Handle


class Busy(Exception):
    """No stream can be opened now; the message says why."""


class Pool:
    """The model processes of a server."""

    def __init__(self, configs: list[WorkerConfig], metrics: Metrics, max_queue: float, timeouts: Timeouts):
        """`max_queue`: no stream is opened while chunks or commands wait longer than this for the model (seconds)."""
        self.max_queue = max_queue
        self.processes = [
            ModelProcess(f"model {number}", config, metrics, timeouts) for number, config in enumerate(configs)
        ]

    async def started(self) -> int:
        """Waits until every process has loaded its model; returns the model's sample rate (Hz).

        Raises:
            InputError: the model cannot be loaded, or cannot stream.
        """
        return (await asyncio.gather(*(process.loaded for process in self.processes)))[0]

    @property
    def is_ready(self) -> bool:
        """Whether a process can take a stream."""
        return any(process.is_ready and not self._is_late(process) for process in self.processes)

    @property
    def queue(self) -> int:
        """Chunks that wait for the model processes."""
        return sum(process.queue for process in self.processes)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return sum(len(process.streams) for process in self.processes)

    def open(self, config: StreamConfig) -> Handle:
        """Opens a stream on the process with the fewest, among those that are not late.

        Raises:
            Busy: no process is ready, or all are late or full.
        """
        ready = [process for process in self.processes if process.is_ready]
        if not ready:
            raise Busy("the model is not ready")
        process = min(ready, key=lambda process: (self._is_late(process), len(process.streams)))
        if len(process.streams) >= process.config.slots:
            raise Busy(f"streams open: {self.streams}, as many as are allowed")
        if self._is_late(process):
            raise Busy(f"the model is {process.behind(self.max_queue):.1f} s behind")
        return process.open(config)

    def _is_late(self, process: ModelProcess) -> bool:
        return process.behind(self.max_queue) > self.max_queue

    def stop(self) -> None:
        """Stops all processes."""
        for process in self.processes:
            process.stop()
