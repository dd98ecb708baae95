"""Connections whose clients misuse TLS, before a request can be read from them."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

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
