"""How a run is asked to end: SIGTERM, a cluster's word for "make room", and Ctrl-C."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Signals:
    """Remembers the signal that came, so that the run may end behind a checkpoint; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.heard = 0  # number of the last signal; 0: none

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Signals are remembered within; outside they do what they did before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._hear) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, _: object) -> None:
        self.heard = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
