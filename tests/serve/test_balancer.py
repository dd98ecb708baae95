"""deploy/haproxy.cfg with the real HAProxy before three real servers: they keep the promises of one."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.waiting import wait_until
from serve.conftest import RunningServer
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
PLACES = 2  # of each server
pytestmark = pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs Debian's package haproxy")


@pytest.fixture
def servers(start: Callable[..., RunningServer]) -> list[RunningServer]:
    """A stream may wait for the others, however slow the machine is."""
    settings = [f"limits.streams={PLACES}", "limits.idle_seconds=600", 'trusted_proxies=["127.0.0.1"]']
    return [start(*(word for setting in settings for word in ("--set", setting))) for _ in range(3)]


@pytest.fixture
def balancer(servers: list[RunningServer], tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of live streams, and the socket for commands, of HAProxy before the servers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    text = CONFIGURATION.read_text().replace("bind :80\n", f"bind 127.0.0.1:{port}\n")
    text = text.replace("/run/haproxy/admin.sock", str(tmp_path / "admin.sock"))
    for number, server in enumerate(servers, 1):
        text = text.replace(f"10.0.0.{number}:2700\n", f"127.0.0.1:{server.port}\n")
    (tmp_path / "haproxy.cfg").write_text(text)
    process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(tmp_path / "haproxy.cfg")])
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if command(tmp_path / "admin.sock", "show stat").count(",L7OK,") == len(servers):
                    break
            time.sleep(0.05)
        else:
            pytest.fail("HAProxy does not find three servers ready")
        yield f"ws://127.0.0.1:{port}", tmp_path / "admin.sock"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    """The clients of a test, which are closed at its end."""
    with contextlib.ExitStack() as stack:
        yield stack


def command(path: Path, text: str) -> str:
    """HAProxy's answer to a command."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(f"{text}\n".encode())
        return b"".join(iter(lambda: client.recv(10_000), b"")).decode()


def streams(servers: list[RunningServer]) -> list[int]:
    return [round(server.metric("ds2_streams_open")) for server in servers]


def ends(live: ClientConnection, rest: bytes) -> str:
    """Sends the rest of the sound, ends a stream, and returns its text."""
    with contextlib.suppress(ConnectionClosed):
        live.send(rest)
        live.send('{"eof": 1}')
    return text_of(live)


def text_of(live: ClientConnection) -> str:
    """The text of a stream up to its end, whichever that is."""
    texts: list[str] = []
    with contextlib.suppress(ConnectionClosed):
        while True:
            texts += filter(None, [json.loads(live.recv(60)).get("text")])
    return " ".join(texts)


def test_three_servers_keep_the_promises_of_one(
    servers: list[RunningServer],
    balancer: tuple[str, Path],
    spoken: dict[str, np.ndarray],
    clients: contextlib.ExitStack,
) -> None:
    url, admin = balancer
    reference, samples = next(iter(spoken.items()))
    first, rest = samples[: len(samples) // 2].tobytes(), samples[len(samples) // 2 :].tobytes()

    def begun() -> ClientConnection:
        live = clients.enter_context(connect(url, open_timeout=60))
        live.send(first)
        return live

    # Each new stream goes to the server with the fewest; who finds all places taken is told so.
    lives = [begun() for _ in range(3 * PLACES)]
    assert streams(servers) == [PLACES] * 3
    with pytest.raises(InvalidStatus, match="503"), connect(url, open_timeout=60):
        pass

    # A server that is drained takes no new streams, and its own end as if nothing had happened.
    command(admin, "set server servers/a state drain")
    assert [ends(live, rest) for live in lives] == [reference] * len(lives)
    wait_until(lambda: streams(servers) == [0, 0, 0])
    lives = [begun() for _ in range(2 * PLACES)]
    assert streams(servers) == [0, PLACES, PLACES]
    command(admin, "set server servers/a state ready")
    lives.append(begun())
    assert streams(servers) == [1, PLACES, PLACES]

    # One that is killed loses its own streams and no others; new ones find the servers that are left.
    servers[1].process.kill()
    servers[1].process.wait()
    assert [ends(live, rest) for live in lives].count(reference) == PLACES + 1

    # One that stops gives the final results of the sound that it has, and another takes the new stream.
    wait_until(lambda: streams([servers[0], servers[2]]) == [0, 0])
    stopping = begun()
    here = 0 if streams([servers[0]]) == [1] else 2
    staying = begun()
    assert streams([servers[0], servers[2]]) == [1, 1]
    stopping.send(rest)
    assert stopping.ping().wait(60)  # what was sent before it is there
    servers[here].process.terminate()
    assert text_of(stopping) == reference
    assert servers[here].process.wait(60) == 0
    assert ends(begun(), rest) == reference
    assert ends(staying, rest) == reference
