"""Admission: hosts, keys, origins, rates and places. A client that is refused learns the reason at once."""

import contextlib
import hmac
import ipaddress
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.requests import HTTPConnection

from ds2.serve.config import ServeConfig
from ds2.serve.prometheus import Metrics

CLIENTS = 10_000  # whose rates, or valid keys, are kept
IPV6_PREFIX = 64  # bits of an address that belong to one client
# A browser cannot set a header on a WebSocket: it sends the key as a subprotocol, percent-encoded.
KEY_PROTOCOL = "ds2.key."


class Refused(Exception):
    """A refused request: HTTP status, one word for the metrics, the reason, seconds until a retry makes sense, and the
    field of the request that is wrong."""

    def __init__(self, status: int, kind: str, message: str, retry_after: int | None = None, field: str | None = None):
        super().__init__(message)
        self.field = field
        self.status, self.kind, self.message, self.retry_after = status, kind, message, retry_after


class Rate:
    """A token bucket for each client: `most` events at once, and as many per minute."""

    def __init__(self, most: int):
        self.most = most
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: tokens, and when that was counted

    @property
    def retry_after(self) -> int:
        """Seconds until an empty bucket has a token."""
        return math.ceil(60 / self.most)

    def tokens(self, client: str) -> float:
        """Events that the client may cause now."""
        tokens, then = self.buckets.get(client, (float(self.most), 0.0))
        return min(self.most, tokens + (time.monotonic() - then) * self.most / 60)

    def take(self, client: str) -> bool:
        """Takes a token, if there is one."""
        tokens = self.tokens(client)
        self.buckets[client] = (tokens - (tokens >= 1), time.monotonic())
        self.buckets.move_to_end(client)
        if len(self.buckets) > CLIENTS:
            self.buckets.popitem(last=False)
        return tokens >= 1


class Admission:
    """Decides about requests, and counts the clients that are inside."""

    def __init__(self, config: ServeConfig, metrics: Metrics):
        self.config, self.metrics = config, metrics
        self.inside = 0
        self.draining = False
        self.places: Counter[str] = Counter()  # of each client
        self.streams = Rate(config.limits.streams_per_minute)
        self.wrong_keys = Rate(config.limits.wrong_keys_per_minute)
        self.known: OrderedDict[tuple[str, int], None] = OrderedDict()  # addresses, and the places of their valid keys

    @contextlib.contextmanager
    def place(self, connection: HTTPConnection, kind: str) -> Iterator[str]:
        """Holds the place of one stream or upload; gives its client's name. Raises Refused as `check` does."""
        self.check(connection)
        client = self._client(connection)
        self.metrics.opened.labels(kind).inc()
        self._count(client, 1)
        try:
            yield client
        finally:
            self._count(client, -1)

    def check(self, connection: HTTPConnection) -> None:
        """Checks whether the client may open a stream or send an upload.

        Raises:
            Refused: no valid key, a page of another host, too many streams, or the server is shutting down.
        """
        self.check_key(connection)
        self._check_origin(connection)
        if self.draining:
            raise Refused(503, "draining", "the server is shutting down", 10)
        limits, client = self.config.limits, self._client(connection)
        if not self.streams.take(client):
            reason = f"more than {limits.streams_per_minute} streams in a minute"
            raise Refused(429, "rate", reason, self.streams.retry_after)
        if self.inside >= limits.streams:
            raise Refused(503, "streams", f"streams open: {self.inside}, as many as are allowed", 5)
        if self.places[client] >= limits.streams_per_client:
            raise Refused(429, "client", f"streams of yours open: {self.places[client]}, as many as are allowed", 5)

    def check_request(self, connection: HTTPConnection) -> None:
        """Checks what is the same for every route.

        Raises:
            Refused: a host name that is not allowed, or a body whose length is ambiguous.
        """
        host = connection.headers.get("host")
        if host is not None and not self._is_allowed(host):
            reason = "this host name is not allowed; the configuration key hosts lists those that are"
            raise Refused(403, "host", reason)
        if {"content-length", "transfer-encoding"} <= set(connection.headers.keys()):
            raise Refused(400, "request", "a request has either Content-Length or Transfer-Encoding")

    def check_key(self, connection: HTTPConnection) -> None:
        """Raises Refused unless the client has a valid key, or none is needed.

        Wrong keys lock their address, but not those who used a valid key from there before.
        """
        if not self.config.api_keys:
            return
        key, address = _client_key(connection), _client_address(connection)
        valid = [place for place, valid in enumerate(self.config.api_keys) if _same(key, valid)]
        known = valid and (address, valid[0]) in self.known
        if not known and self.wrong_keys.tokens(address) < 1:
            raise Refused(429, "key", "too many wrong keys from your address", self.wrong_keys.retry_after)
        if not valid:
            if key:
                self.wrong_keys.take(address)
            raise Refused(401, "key", "a valid API key is required: Authorization: Bearer KEY")
        self.known[address, valid[0]] = None
        self.known.move_to_end((address, valid[0]))
        if len(self.known) > CLIENTS:
            self.known.popitem(last=False)

    def _count(self, client: str, change: int) -> None:
        self.inside += change
        self.places[client] += change
        if self.places[client] == 0:
            del self.places[client]
        self.metrics.streams.set(self.inside)

    def _client(self, connection: HTTPConnection) -> str:
        """The client's key; where none is checked, its address."""
        return _client_key(connection).decode("latin-1") if self.config.api_keys else _client_address(connection)

    def _is_allowed(self, host: str) -> bool:
        """A page whose name was bound to our address (DNS rebinding) has its own name here, never an address."""
        allowed = {"localhost", self.config.host, *self.config.hosts}
        with contextlib.suppress(ValueError):  # "[", which is not an address
            name = urlsplit(f"//{host}").hostname or ""
            if "*" in allowed or name in allowed or name.endswith(".localhost"):
                return True
            ipaddress.ip_address(name)
            return True
        return False

    def _check_origin(self, connection: HTTPConnection) -> None:
        """A page on another host must not use its visitor's browser to connect. Only browsers send an Origin."""
        origin = connection.headers.get("origin")
        if origin is None or origin in self.config.origins:
            return
        with contextlib.suppress(ValueError):  # "http://[" is not an address
            if urlsplit(origin).netloc == connection.headers.get("host"):
                return
        reason = "pages of this origin may not connect; the configuration key origins lists those that may"
        raise Refused(403, "origin", reason)


def _client_address(connection: HTTPConnection) -> str:
    """The client's address; of version 6 the network, because one client has all addresses in it."""
    host = connection.client.host if connection.client else ""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.version == 6 and address.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(address), IPV6_PREFIX), strict=False))
    return host


def _client_key(connection: HTTPConnection) -> bytes:
    """The key in the bytes that the client sent; empty if there is none."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip().encode("latin-1")  # as which Starlette has decoded the header
    offered = (name.strip() for name in connection.headers.get("sec-websocket-protocol", "").split(","))
    keys = (unquote_to_bytes(name.removeprefix(KEY_PROTOCOL)) for name in offered if name.startswith(KEY_PROTOCOL))
    return next(keys, b"")


def _same(given: bytes, key: str) -> bool:
    """Compares in constant time; clients send a key in UTF-8 or, as old HTTP libraries do, in Latin-1."""
    forms = [key.encode()]
    with contextlib.suppress(UnicodeEncodeError):
        forms.append(key.encode("latin-1"))
    return sum(hmac.compare_digest(given, form) for form in forms) > 0
