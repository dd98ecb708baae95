"""Connections whose clients misuse TLS, before a request can be read from them."""

import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serve.conftest import RunningServer, tls_settings

Start = Callable[..., RunningServer]


@pytest.fixture(scope="module")
def impatient(start: Start, certificate: Path) -> RunningServer:
    return start(*tls_settings(certificate), "--set", "limits.request_timeout_seconds=0.5")


@pytest.mark.parametrize("begin", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half"])
def test_a_handshake_that_does_not_end_is_cut_off(impatient: RunningServer, begin: bytes) -> None:
    """asyncio alone would wait for a minute."""
    with socket.create_connection(("127.0.0.1", impatient.port), 30) as client:
        client.sendall(begin)
        assert client.recv(1) == b""


def test_a_header_has_a_deadline_behind_the_handshake(impatient: RunningServer, certificate: Path) -> None:
    context = ssl.create_default_context(cafile=certificate)
    with (
        socket.create_connection(("127.0.0.1", impatient.port), 100) as client,
        context.wrap_socket(client, server_hostname="127.0.0.1") as encrypted,
    ):
        encrypted.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert encrypted.recv(1) == b""


def test_silent_connections_do_not_take_all_descriptors(start: Start, certificate: Path) -> None:
    """Their handshakes have ten minutes here, and the server may open 64 descriptors."""
    settings = (*tls_settings(certificate), "--set", "limits.request_timeout_seconds=600")
    server = start(*settings, open_files=64)
    context = ssl.create_default_context(cafile=certificate)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 100))
        for _ in range(10):
            assert httpx.get(f"{server.url}/healthz", timeout=60, verify=context).text == "ok\n"
    log = server.stop()
    facts = [line for line in log if line["event"].startswith("file descriptors run out")]
    assert max(line["handshakes"] for line in facts) > 10
    assert {line["level"] for line in log if line not in facts} <= {"info"}
