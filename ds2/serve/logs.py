"""The server's log: JSON lines on stderr, written by a thread, so that a slow reader holds up nobody."""

import atexit
import contextlib
import json
import logging
import queue
import sys
import time
from logging.handlers import QueueHandler, QueueListener

WAITING = 10_000  # lines; more are left out


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
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(JsonLines())
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(WAITING)
    listener = QueueListener(waiting, writer)
    listener.start()
    atexit.register(listener.stop)
    logging.basicConfig(level=logging.WARNING, handlers=[Leaving(waiting)], force=True)
    logging.getLogger("ds2.serve").setLevel(logging.INFO)
