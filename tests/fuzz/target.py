"""A real `ds2 serve` under attack, and the check that it has come to no harm."""

import atexit
import contextlib
import functools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from fuzz.sounds import AUDIO

from ds2.utils.forks import die_with_parent

SECONDS = 50.0  # in which the server must do anything
QUIET_SECONDS = 0.1  # without an answer after which nothing more is expected
MEMORY = 1 << 30  # bytes of the server and its model process
START_SECONDS = 600.0  # for its kernels to be compiled, and for the first upload, which imports torch
SETTINGS = {
    "limits.load_timeout_seconds": START_SECONDS,
    "limits.idle_seconds": 2,
    "limits.request_timeout_seconds": 2,
    "limits.upload_timeout_seconds": 4,
    "limits.upload_bytes": 1 << 20,
    "limits.streams_per_minute": 1_000_000,
    "limits.max_queue_seconds": 60,  # an honest client comes right behind a hostile one
}
UPLOAD = (AUDIO / "so762_000010035.opus").read_bytes()


class Broken(Exception):
    """The server did what it must never do."""


class Target:
    """The server, which dies with this process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "ds2", "serve", "--model", "digits-streaming", "--port", "0"]
        command += [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.read = 0  # bytes of the log
        follow = functools.partial(die_with_parent, os.getpid())
        self.process = subprocess.Popen(command, stderr=self.log, preexec_fn=follow)
        atexit.register(self.process.kill)
        self.port = self._port()
        self.text = self.transcribe(START_SECONDS)

    def _port(self) -> int:
        log, until = [], time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.new_lines():
                log.append(line)
                if '"event": "ready"' in line:
                    return int(json.loads(line)["url"].rpartition(":")[2])
            time.sleep(0.1)
        raise Broken("\n".join(["it did not start", *log, *self.new_lines()]))

    def new_lines(self) -> list[str]:
        """What it has logged since the last call."""
        size = os.fstat(self.log.fileno()).st_size
        data = os.pread(self.log.fileno(), size - self.read, self.read)
        whole = data[: data.rfind(b"\n") + 1]
        self.read += len(whole)
        return whole.decode().splitlines()

    def exchange(self, *messages: bytes, opening: bytes = b"") -> bytes:
        """Sends messages over a new connection, each after an answer to the one before; all that comes back.

        The answer to `opening` is waited for.
        """
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as client:
            client.sendall(opening)
            while opening and not answer.endswith(b"\r\n\r\n"):
                answer += client.recv(1)
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

    def transcribe(self, seconds: float = SECONDS) -> str:
        """What an honest client gets, in so many seconds."""
        body = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.opus"\r\n\r\n' + UPLOAD + b"\r\n--x--\r\n"
        )
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/audio/transcriptions", body, headers)
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)["text"]

    def check(self) -> None:
        """Raises Broken unless the server is alive, its log in order, all places free, and honest clients served."""
        if self.process.poll() is not None:
            raise Broken(f"it ended with {self.process.returncode}: {self.new_lines()[-5:]}")
        until = time.monotonic() + SECONDS
        while (streams := re.search(r"^ds2_streams_open (\S+)", self.get("/metrics"), re.M)[1]) != "0.0":  # type: ignore[index]
            if time.monotonic() > until:
                raise Broken(f"{streams} places are not given back")
            time.sleep(0.02)
        if (text := self.transcribe()) != self.text:
            raise Broken(f"an honest client gets {text!r} instead of {self.text!r}")
        if bad := [line for line in self.new_lines() if _is_bad(line)]:
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
    statuses = [Path(f"/proc/{process}/status").read_text()]
    for child in children:
        with contextlib.suppress(OSError):  # it has ended
            statuses.append(Path(f"/proc/{child}/status").read_text())
    return sum(int(size) << 10 for status in statuses for size in re.findall(r"VmRSS:\s+(\d+)", status))


@functools.cache
def target() -> Target:
    """The one server of this process."""
    return Target()


def attack(*messages: bytes, opening: bytes = b"") -> bytes:
    """Sends the messages to the server; its answer.

    Raises:
        Broken: the server has come to harm; another takes its place.
    """
    server = target()
    try:
        answer = server.exchange(*messages, opening=opening)
        server.check()
    except Exception:
        server.process.kill()
        target.cache_clear()
        raise
    return answer
