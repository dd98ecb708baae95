"""Requests to end a run early: SIGTERM, which a cluster sends to free a machine, and Ctrl-C."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class TrainingStopped(Exception):
    """A signal ended the run after a checkpoint; `number` is the signal's."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.number = number


class Signals:
    """Records the signal that came, so that the run may end after a checkpoint; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.received = 0  # number of the last signal; 0: none

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Signals are recorded inside the context; outside they do what they did before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._receive) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self.received = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
