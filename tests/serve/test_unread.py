"""Clients that send, and read nothing of what the server answers."""

import re
import select
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from serve.conftest import RunningServer

Start = Callable[..., RunningServer]
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
MASK = bytes(4)
PING = b"\x89\xfd" + MASK + bytes(125)
EMPTY_FRAGMENT = b"\x00\x80" + MASK
PINGS = 32 << 20  # bytes
GROWTH = 12 << 20  # bytes of memory that a server may take for anything else meanwhile


def resident(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10  # type: ignore[index]


def connect(server: RunningServer) -> socket.socket:
    """A connection that can take little before it must be read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", server.port))
    return client


def upgrade(client: socket.socket) -> None:
    client.sendall(UPGRADE)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += client.recv(1)
    assert answer.startswith(b"HTTP/1.1 101 ")


def test_pings_do_not_fill_the_memory(start: Start) -> None:
    server = start()
    before = resident(server)
    with connect(server) as client:
        upgrade(client)
        for _ in range(PINGS // (1000 * len(PING))):
            client.sendall(1000 * PING)
        assert resident(server) - before < GROWTH
    assert server.get("/healthz") == "ok\n"


def test_fragments_of_a_message_are_limited(server: RunningServer) -> None:
    with connect(server) as client:
        upgrade(client)
        client.sendall(b"\x01\x80" + MASK + 2000 * EMPTY_FRAGMENT)
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.endswith(b"\x03\xf1a message may have 1000 fragments")  # close code 1009


def test_a_connection_that_is_not_read_ends(start: Start) -> None:
    """It would stay for ever: the answers must be taken before it can be closed."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        pytest.skip("needs TCP_USER_TIMEOUT, which Linux has")
    server = start("--set", "limits.idle_seconds=1")
    with connect(server) as client:
        client.setblocking(False)
        poll = select.poll()
        poll.register(client, select.POLLOUT)
        request = 100 * b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        while not (events := poll.poll(60_000)[0][1]) & (select.POLLERR | select.POLLHUP):
            assert events == select.POLLOUT
            client.send(request)
            if not poll.poll(100):  # the server takes no more requests
                poll.modify(client, 0)
    assert server.get("/healthz") == "ok\n"
