"""Waiting for what other processes do."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], patience: float = 60.0) -> None:
    """Asks again and again.

    Raises:
        AssertionError: it is still false after so many seconds.
    """
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
