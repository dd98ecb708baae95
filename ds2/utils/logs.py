"""Shows the library's log messages on the command line."""

import contextlib
import logging
import sys
from collections.abc import Iterator


class _Lines(logging.StreamHandler):
    """Writes to whatever standard error is at the moment: a progress bar takes its place while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        self.setStream(sys.stderr)
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.levelno < logging.WARNING else f"ds2: {record.getMessage()}"


@contextlib.contextmanager
def shown_log() -> Iterator[None]:
    """Messages of ds2 appear on standard error until the context ends, and reach no other handler.

    Warnings and errors begin with "ds2:". A level that was set for the logger "ds2" stays; by default it is INFO.
    """
    logger, handler = logging.getLogger("ds2"), _Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(level or logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = True
