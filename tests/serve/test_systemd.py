"""What `ds2 serve` tells systemd, received on a real datagram socket."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serve.conftest import RunningServer

from ds2.serve.systemd import keep_alive, notify, watchdog_seconds


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket that stands for systemd's, at tmp_path/notify."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(60)
        yield receiver


def states(manager: socket.socket, last: str) -> list[str]:
    """All that arrives up to the state `last`."""
    found: list[str] = []
    while last not in found:
        found.append(manager.recv(100).decode())
    return found


def test_a_server_is_ready_alive_and_stopping(
    start: Callable[..., RunningServer], manager: socket.socket, tmp_path: Path
) -> None:
    """READY is told when streams are taken, and the watchdog is fed until the end."""
    server = start(environment={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"})
    assert states(manager, "READY=1") == ["READY=1"]
    assert server.get("/readyz") == "ready\n"
    assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    server.process.send_signal(signal.SIGTERM)
    assert set(states(manager, "STOPPING=1")) <= {"WATCHDOG=1", "STOPPING=1"}
    server.process.communicate(timeout=120)
    assert server.process.returncode == 0


def test_an_abstract_address(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"ds2-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}")
        receiver.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify("READY=1")
        assert receiver.recv(100) == b"READY=1"


def test_a_socket_that_is_gone_is_logged_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
    assert caplog.messages == ["systemd could not be notified"]


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "30000000"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_is_for_the_process_that_it_names(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], seconds: float
) -> None:
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert watchdog_seconds() == seconds


def test_without_a_watchdog_nothing_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    asyncio.run(keep_alive())
