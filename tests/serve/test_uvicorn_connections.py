"""Connections that clients misuse: half a request, an unwanted body, bad frames, all file descriptors."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import httpx
import pytest
import websockets
from serve.conftest import RunningServer
from serve.test_websocket_session import close_code, hear, tell
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.anyio

Start = Callable[..., RunningServer]
HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def impatient(start: Start) -> RunningServer:
    return start("--set", "limits.request_timeout_seconds=0.5")


@pytest.mark.parametrize("begin", [b"", HALF, HALF + b"X: y\r\n"], ids=["nothing", "half", "more"])
def test_a_connection_without_a_whole_request_is_closed(impatient: RunningServer, begin: bytes) -> None:
    assert impatient.exchange(begin) == b""


def test_the_deadline_holds_for_each_request_of_a_connection(impatient: RunningServer) -> None:
    answer = impatient.exchange(HALF + b"\r\n" + HALF)
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b"ok\n")


async def test_the_deadline_is_not_that_of_a_live_stream(impatient: RunningServer) -> None:
    async with websockets.connect(impatient.live) as stream:
        await asyncio.to_thread(impatient.exchange, HALF)  # comes later, is closed at the deadline
        await tell(stream, {"eof": 1})
        assert await hear(stream) == {"text": ""}


def test_half_open_connections_do_not_take_all_descriptors(start: Start) -> None:
    """The server may open 64 descriptors, and its log reports that they run out."""
    server = start(open_files=64)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 100))
            with contextlib.suppress(OSError):  # closed already
                client.sendall(HALF)
        for _ in range(10):
            assert httpx.get(f"{server.url}/healthz", timeout=100).text == "ok\n"
    assert any(line["event"].startswith("file descriptors run out") for line in server.stop())


def test_a_handshake_of_a_websocket_with_a_long_line_is_refused_and_its_connection_closed(
    server: RunningServer,
) -> None:
    """Websockets reads 8 KiB of a line; uvicorn would neither answer nor close, and no deadline holds any more."""
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    key = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    answer = server.exchange(head + key + b"X: " + b"y" * 10_000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_body_with_two_lengths_is_refused_and_its_connection_closed(server: RunningServer) -> None:
    """The second request would be smuggled past a proxy that believes the other length."""
    body = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    answer = server.exchange(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/page.js", "/v1/audio/transcriptions", "/healthz"])
def test_a_body_that_breaks_the_protocol_has_one_answer(start: Start, path: str) -> None:
    """The body is bad, and the application has the header: its answer would be a second one, and a traceback."""
    server = start()
    for version in ("1.0", "1.1"):
        head = f"POST {path} HTTP/{version}\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        for more in ("", "Content-Length: 5\r\n"):
            for request in (head, head.replace("POST", "HEAD")):
                answer = server.exchange(f"{request}{more}\r\nno size\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 400 ")
                assert answer.count(b"HTTP/1.1") == 1
    assert not any(line["level"] == "error" for line in server.stop())


def test_the_rest_of_a_refused_body_is_not_read(server: RunningServer) -> None:
    """The connection is closed behind the answer, though a gigabyte is still to come."""
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x"
    answer = server.exchange(f"{head}\r\nContent-Length: 1000000000\r\n\r\n--x".encode())
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_forwarded_addresses_are_believed_of_trusted_proxies_alone(start: Start) -> None:
    def statuses(server: RunningServer) -> list[int]:
        url = f"{server.url}/v1/audio/transcriptions"
        return [httpx.post(url, headers={"X-Forwarded-For": f"10.0.0.{n}"}, timeout=60).status_code for n in range(3)]

    once = ("--set", "limits.streams_per_minute=1")
    assert statuses(start(*once)) == [400, 429, 429]
    assert statuses(start(*once, "--set", 'trusted_proxies=["127.0.0.1"]')) == [400, 400, 400]


def test_what_clients_do_wrong_is_no_error_in_the_log(start: Start) -> None:
    """Refused handshakes and text that is not UTF-8."""
    server = start("--set", 'api_keys=["secret"]')

    async def visit() -> None:
        with pytest.raises(InvalidStatus, match="401"):
            await websockets.connect(server.live)
        async with websockets.connect(server.live, additional_headers={"Authorization": "Bearer secret"}) as stream:
            await stream.send(b'{"config": "\xff"}', text=True)
            assert (await close_code(stream))[0] == 1007

    asyncio.run(visit())
    log = server.stop()
    assert {line["level"] for line in log} == {"info"}
    assert {"refused", "stream"} <= {line["event"] for line in log}


@pytest.mark.parametrize(
    "upgrade", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"]
)
def test_a_page_that_bound_its_name_to_our_address_is_refused(server: RunningServer, upgrade: bytes) -> None:
    """DNS rebinding: Host and Origin agree, and both are strange."""
    names = b"Host: evil.example\r\nOrigin: http://evil.example\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    answer = server.exchange(b"GET / HTTP/1.1\r\n" + names + upgrade + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"host name is not allowed" in answer
