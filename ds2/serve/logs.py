"""The log of each process: JSON lines on stderr, written by a thread, so that a slow reader does not block it."""

import atexit
import contextlib
import json
import logging
import os
import queue
import threading
import time
from contextvars import ContextVar
from logging.handlers import QueueHandler

WAITING = 10_000  # lines; more are dropped
LAST_SECONDS = 5.0  # for the remaining lines at the end of a process
STDERR = 2
REQUEST: ContextVar[str] = ContextVar("request", default="")  # the id of the request that is served here


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, event, request, facts; never the text of a transcript."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        if request := getattr(record, "request", ""):
            line["request"] = request
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps({**line, **getattr(record, "facts", {})}, ensure_ascii=False)


class DroppingHandler(QueueHandler):
    """Passes records on, with the id of their request, and drops them while too many wait."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns the record as it is: it is formatted in this process."""
        record.request = REQUEST.get()  # not in the thread that writes, which serves none
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Puts the record into the queue unless that is full."""
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


def log_to_stderr() -> None:
    """Logs the events of the server, and the warnings of uvicorn and other libraries."""
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(WAITING)
    writer = threading.Thread(target=_write_records, args=(waiting,), daemon=True)
    writer.start()
    atexit.register(_finish, waiting, writer)
    logging.basicConfig(level=logging.WARNING, handlers=[DroppingHandler(waiting)], force=True)
    logging.getLogger("ds2.serve").setLevel(logging.INFO)


def _write_records(waiting: "queue.Queue[logging.LogRecord | None]") -> None:
    """A thread. It can block for ever, so it holds no lock of a file or handler that other threads need."""
    lines = JsonLines()
    while (record := waiting.get()) is not None:
        with contextlib.suppress(Exception):  # a bad line must not end the log
            os.write(STDERR, f"{lines.format(record)}\n".encode())


def _finish(waiting: "queue.Queue[logging.LogRecord | None]", writer: threading.Thread) -> None:
    with contextlib.suppress(queue.Full):
        waiting.put_nowait(None)
    writer.join(LAST_SECONDS)
