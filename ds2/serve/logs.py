"""The log of each process: JSON lines on stderr, written by a thread, so that a slow reader holds up nobody."""

import atexit
import contextlib
import json
import logging
import os
import queue
import threading
import time
from logging.handlers import QueueHandler

WAITING = 10_000  # lines; more are left out
LAST_SECONDS = 1.0  # that a process waits at its end for the lines to be read
STDERR = 2


class JsonLines(logging.Formatter):
    """One JSON object a line: when, how bad, what, and the facts of it. What was said is never among them."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps({**line, **getattr(record, "facts", {})}, ensure_ascii=False)


class Leaving(QueueHandler):
    """Hands records on as they are; where too many wait, it leaves them out."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


def log_to_stderr() -> None:
    """The server's own events, and what uvicorn warns of."""
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(WAITING)
    writer = threading.Thread(target=_write, args=(waiting,), daemon=True)
    writer.start()
    atexit.register(_finish, waiting, writer)
    logging.basicConfig(level=logging.WARNING, handlers=[Leaving(waiting)], force=True)
    logging.getLogger("ds2.serve").setLevel(logging.INFO)


def _write(waiting: "queue.Queue[logging.LogRecord | None]") -> None:
    """A thread. It may stand still for ever, and so holds no lock of a file or a handler that others wait for."""
    lines = JsonLines()
    while (record := waiting.get()) is not None:
        with contextlib.suppress(Exception):  # no line may end the log
            os.write(STDERR, f"{lines.format(record)}\n".encode())


def _finish(waiting: "queue.Queue[logging.LogRecord | None]", writer: threading.Thread) -> None:
    with contextlib.suppress(queue.Full):
        waiting.put_nowait(None)
    writer.join(LAST_SECONDS)
