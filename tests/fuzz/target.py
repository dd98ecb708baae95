"""A real `ds2 serve` under attack, and the check that it has come to no harm."""

import atexit
import ctypes
import functools
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from fuzz.sounds import AUDIO

SECONDS = 30.0  # in which the server must do anything
QUIET_SECONDS = 0.1  # without an answer after which nothing more is expected
MEMORY = 1 << 30  # bytes of the server and its model process
SETTINGS = {
    "limits.idle_seconds": 2,
    "limits.request_timeout_seconds": 2,
    "limits.upload_timeout_seconds": 4,
    "limits.upload_bytes": 1 << 20,
    "limits.streams_per_minute": 1_000_000,
}
PR_SET_PDEATHSIG = 1
UPLOAD = (AUDIO / "so762_000010035.opus").read_bytes()


class Broken(Exception):
    """The server did what it must never do."""


class Target:
    """The server, which dies with this process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "ds2", "serve", "--port", "0"]
        command += [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(command, stderr=self.log, preexec_fn=_die_with_parent)
        atexit.register(self.process.kill)
        self.port = self._port()
        self.text = self.transcribe()

    def _port(self) -> int:
        until = time.monotonic() + 10 * SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            if lines := self.lines():
                return int(json.loads(lines[0])["url"].rpartition(":")[2])
            time.sleep(0.1)
        raise Broken("it did not start")

    def lines(self) -> list[str]:
        """Its whole log."""
        self.log.seek(0)
        return self.log.read().decode().splitlines()

    def exchange(self, *messages: bytes) -> bytes:
        """Sends messages over a new connection, each after an answer to the one before; all that comes back."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as client:
            for message in messages:
                try:
                    client.sendall(message)
                    answer += _read(client)
                except (ConnectionError, BrokenPipeError):
                    break
        return answer

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as answer:
            return answer.read().decode()

    def transcribe(self) -> str:
        """What an honest client gets."""
        body = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.opus"\r\n\r\n' + UPLOAD + b"\r\n--x--\r\n"
        )
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/audio/transcriptions", body, headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)["text"]

    def check(self) -> None:
        """Raises Broken unless the server is alive, its log in order, all places free, and honest clients served."""
        if self.process.poll() is not None:
            raise Broken(f"it ended with {self.process.returncode}: {self.lines()[-5:]}")
        until = time.monotonic() + SECONDS
        while (streams := re.search(r"^ds2_streams_open (\S+)", self.get("/metrics"), re.M)[1]) != "0.0":  # type: ignore[index]
            if time.monotonic() > until:
                raise Broken(f"{streams} places are not given back")
            time.sleep(0.02)
        if (text := self.transcribe()) != self.text:
            raise Broken(f"an honest client gets {text!r} instead of {self.text!r}")
        if bad := [line for line in self.lines() if _is_bad(line)]:
            raise Broken("\n".join(bad))
        if (used := _memory(self.process.pid)) > MEMORY:
            raise Broken(f"{used >> 20} MiB of memory")


def _read(client: socket.socket) -> bytes:
    """What comes until nothing more does."""
    parts = []
    client.settimeout(QUIET_SECONDS)
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except (TimeoutError, ConnectionError):
        pass
    client.settimeout(SECONDS)
    return b"".join(parts)


def _is_bad(line: str) -> bool:
    """Whether a line of the log tells of an error that no client may cause."""
    try:
        entry = json.loads(line)
    except ValueError:
        return True
    return "error" in entry or entry["level"] in ("error", "critical")


def _memory(process: int) -> int:
    """Bytes of a process and its children."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    statuses = [Path(f"/proc/{number}/status").read_text() for number in [process, *children]]
    return sum(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10 for status in statuses)  # type: ignore[index]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@functools.cache
def target() -> Target:
    """The one server of this process."""
    return Target()


def attack(*messages: bytes) -> bytes:
    """Sends the messages to the server; its answer.

    Raises:
        Broken: the server has come to harm; another takes its place.
    """
    try:
        answer = target().exchange(*messages)
        target().check()
    except Exception:
        target().process.kill()
        target.cache_clear()
        raise
    return answer
