"""Admission: keys, origins, rates and places. A client that is refused learns the reason at once."""

import contextlib
import hmac
import math
import time
from collections import OrderedDict
from urllib.parse import unquote, urlsplit

from starlette.requests import HTTPConnection

from ds2.serve.config import ServeConfig
from ds2.serve.metrics import Metrics

CLIENTS = 10_000  # whose rates are kept
# A browser cannot set a header on a WebSocket: it sends the key as a subprotocol, percent-encoded.
KEY_PROTOCOL = "ds2.key."


class Refused(Exception):
    """A refused request: HTTP status, one word for the metrics, the reason, seconds until a retry makes sense, and the
    field of the request that is wrong."""

    def __init__(self, status: int, kind: str, message: str, retry_after: int | None = None, field: str | None = None):
        super().__init__(message)
        self.field = field
        self.status, self.kind, self.message, self.retry_after = status, kind, message, retry_after


class Gate:
    """Counts the clients; `with gate.enter(kind)` holds the place of one stream or upload."""

    def __init__(self, config: ServeConfig, metrics: Metrics):
        self.config, self.metrics = config, metrics
        self.inside = 0
        self.draining = False
        self.tokens: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # client: streams it may open, and when that was counted

    def check(self, connection: HTTPConnection) -> None:
        """Checks whether the client may open a stream or send an upload.

        Raises:
            Refused: no valid key, a page of another host, too many streams, or the server is shutting down.
        """
        self.check_key(connection)
        self._check_origin(connection)
        if self.draining:
            raise Refused(503, "draining", "the server is shutting down", 10)
        self._check_rate(connection)
        if self.inside >= self.config.limits.streams:
            raise Refused(503, "streams", f"{self.inside} streams are open, as many as are allowed", 5)

    def enter(self, kind: str) -> "Gate":
        self.metrics.opened.labels(kind).inc()
        return self

    def __enter__(self) -> None:
        self.inside += 1
        self.metrics.streams.set(self.inside)

    def __exit__(self, *_: object) -> None:
        self.inside -= 1
        self.metrics.streams.set(self.inside)

    def check_key(self, connection: HTTPConnection) -> None:
        if self.config.api_keys and not any(_same(_key(connection), key) for key in self.config.api_keys):
            raise Refused(401, "key", "a valid API key is required: Authorization: Bearer KEY")

    def _check_origin(self, connection: HTTPConnection) -> None:
        """A page on another host must not use its visitor's browser to connect. Only browsers send an Origin."""
        origin = connection.headers.get("origin")
        if origin is None or origin in self.config.origins:
            return
        with contextlib.suppress(ValueError):  # "http://[" is not an address
            if urlsplit(origin).netloc == connection.headers.get("host"):
                return
        raise Refused(
            403, "origin", "pages of this origin may not connect; the configuration key origins lists those that may"
        )

    def _check_rate(self, connection: HTTPConnection) -> None:
        most, now = self.config.limits.streams_per_minute, time.monotonic()
        host = connection.client.host if connection.client else ""
        client = _key(connection) if self.config.api_keys else host  # an unchecked key can be anything
        tokens, then = self.tokens.pop(client, (float(most), now))
        tokens = min(most, tokens + (now - then) * most / 60)
        allowed = tokens >= 1
        self.tokens[client] = (tokens - allowed, now)
        if len(self.tokens) > CLIENTS:
            self.tokens.popitem(last=False)
        if not allowed:
            raise Refused(429, "rate", f"more than {most} streams in a minute", math.ceil(60 / most))


def _key(connection: HTTPConnection) -> str:
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    offered = (name.strip() for name in connection.headers.get("sec-websocket-protocol", "").split(","))
    return next((unquote(name.removeprefix(KEY_PROTOCOL)) for name in offered if name.startswith(KEY_PROTOCOL)), "")


def _same(given: str, key: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode(), key.encode())
