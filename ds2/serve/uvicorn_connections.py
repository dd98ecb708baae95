"""Connections of uvicorn that no client can keep open for nothing.

A connection must bring the header of a request within a deadline, and is closed when an answer is sent before the
request's body has come. What a client does not read does not fill the memory. When file descriptors run out, the older
half of the connections that only wait is closed.
"""

import asyncio
import contextlib
import logging
import resource
import socket
import time
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.protocol import State

log = logging.getLogger("ds2.serve")
WANTED_DESCRIPTORS = 8192  # if the system allows so many
SPARE_DESCRIPTORS = 16  # for files and pipes
BACKLOGS_PER_LIMIT = 8  # the system accepts a backlog of connections at once, before any of them is seen here
LINGER_SECONDS = 1.0  # in which a client can read an answer before the connection is closed
LOG_SECONDS = 10.0  # between two log lines about descriptors
FRAGMENTS = 1000  # of a WebSocket message


class Settings(uvicorn.Config):
    """The configuration of uvicorn, with the limits of connections."""

    def __init__(self, app: ASGIApp, request_timeout: float, **options: Any):
        """`request_timeout`: seconds for the header of a request, and for the handshake of TLS before it."""
        self.descriptors = _raise_descriptor_limit()
        backlog = self.descriptors // BACKLOGS_PER_LIMIT
        super().__init__(app, http=HttpConnection, ws=WebSocketConnection, backlog=backlog, **options)
        self.request_timeout = request_timeout
        self.reserve = SPARE_DESCRIPTORS + backlog
        self.logged_at = float("-inf")
        self.handshakes: dict[socket.socket, None] = {}  # connections in the handshake of TLS, the oldest first
        self.connections: set[Any] = set()  # of uvicorn, when the server has started

    def is_full(self, descriptor: int) -> bool:
        """Whether so high a descriptor says that they run out."""
        return descriptor >= self.descriptors - self.reserve

    def make_room(self) -> None:
        """Closes the older half of the connections in a handshake, and of those that wait for a request."""
        now = time.monotonic()
        if now - self.logged_at > LOG_SECONDS:
            self.logged_at = now
            counts = {"connections": len(self.connections), "handshakes": len(self.handshakes)}
            facts = {"limit": self.descriptors, **counts}
            log.error("file descriptors run out: old connections without a request are closed", extra={"facts": facts})
        for client in list(self.handshakes)[: len(self.handshakes) // 2]:
            del self.handshakes[client]
            with contextlib.suppress(OSError):  # the client has left
                client.shutdown(socket.SHUT_RDWR)
        others = [other for other in self.connections if isinstance(other, HttpConnection)]
        waiting = [(other.deadline.when(), other.transport) for other in others if other.deadline is not None]
        waiting.sort(key=lambda connection: connection[0])
        for _, transport in waiting[: len(waiting) // 2]:
            transport.abort()


class HttpConnection(H11Protocol):
    """An HTTP connection with a deadline for headers."""

    config: Settings
    deadline: asyncio.TimerHandle | None = None  # while the connection waits for the header of a request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the deadline; makes room if open files run out."""
        super().connection_made(transport)
        self._update_deadline()
        if self.config.is_full(transport.get_extra_info("socket").fileno()):
            self.config.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the deadline."""
        super().connection_lost(exc)
        if self.deadline is not None:
            self.deadline.cancel()

    def data_received(self, data: bytes) -> None:
        """Passes data on, and starts or ends the deadline."""
        super().data_received(data)
        self._update_deadline()

    def on_response_complete(self) -> None:
        """Closes the connection if a refused upload is not read to its end."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._close_unread()
        self._update_deadline()

    def send_400_response(self, msg: str) -> None:
        """Answers a body that breaks the protocol; the application, which has the header, must not answer as well."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            with contextlib.suppress(h11.LocalProtocolError):  # an answer to HEAD has no body
                super().send_400_response(msg)
        self.transport.close()

    def _update_deadline(self) -> None:
        waits = self.conn.their_state is h11.IDLE
        if waits and self.deadline is None:
            self.deadline = self.loop.call_later(self.config.request_timeout, self.transport.close)
        elif not waits and self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _close_unread(self) -> None:
        """Ends the connection without reading the rest of a body, but not before the client has read the answer."""
        self.flow.pause_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket whose client can neither fill the memory nor cause errors in the log."""

    def data_received(self, data: bytes) -> None:
        """Refuses a handshake that websockets does not read, such as one with a line of 8 KiB."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.transport.close()

    def handle_ping(self) -> None:
        """Sends no pongs to a client that does not read them, or they would wait in memory without end."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """A message of empty fragments would never reach the limit of its size."""
        if len(self.frames) < FRAGMENTS:
            super().handle_cont(event)
        elif self.conn.state is State.OPEN:
            self.frames = []
            self.conn.send_close(1009, f"a message may have {FRAGMENTS} fragments")
            self.handle_parser_exception()

    async def send(self, message: Any) -> None:
        """Sends a message of the application."""
        await super().send(message)
        if self.close_sent:  # also after a refused handshake, which uvicorn logs as an error of ours otherwise
            self.handshake_complete = True

    def send_receive_event_to_app(self) -> None:
        """Passes a message to the application; closes with 1007 if its text is not UTF-8."""
        if self.conn.state is not State.OPEN:  # a close is on its way, and no second one may be sent
            self.frames = []
            return
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(1007, "a text message must be UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()


def _raise_descriptor_limit() -> int:
    """Raises the limit of open files to what the system allows; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(WANTED_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
