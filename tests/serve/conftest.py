"""A real server in a separate process, and real recordings to send it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

DIGITS = Path(__file__).parents[2] / "recipes" / "digits" / "audio"


class RunningServer:
    """`ds2 serve` as a user starts it."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None, open_files: int = 1024):
        command = ["bash", "-c", f'ulimit -n {open_files}; exec "$@"', "", sys.executable, "-m", "ds2", "serve"]
        command += ["--port", "0", *arguments]
        variables = {"DS2_SERVE_MODEL": "digits-streaming", **os.environ, **(environment or {})}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables)
        assert self.process.stderr is not None
        log = []  # until it is ready: warnings, for example
        for line in self.process.stderr:
            log.append(line)
            if '"event": "ready"' in line:
                break
        else:
            pytest.fail("".join(log))
        self.url: str = json.loads(line)["url"]
        self.live = self.url.replace("http", "ws", 1)
        self.port = int(self.url.rpartition(":")[2])

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path) as answer:
            return answer.read().decode()

    def metric(self, name: str) -> float:
        [line] = [line for line in self.get("/metrics").splitlines() if line.rpartition(" ")[0] == name]
        return float(line.rpartition(" ")[2])

    def exchange(self, request: bytes) -> bytes:
        """Sends bytes over a new connection; all that comes back until the server closes it."""
        with socket.create_connection(("127.0.0.1", self.port), 100) as client:
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(10_000), b""))

    def stop(self) -> list[dict[str, Any]]:
        """Ends the server; its log."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=120)
        return [json.loads(line) for line in errors.splitlines()]

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """While the only model process does nothing."""
        [worker] = self.workers()
        os.kill(worker, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(worker, signal.SIGCONT)

    def workers(self) -> list[int]:
        """Process numbers of the model processes."""
        return [number for number, name in self._spawned() if name != "ds2-forker"]

    def forker(self) -> int | None:
        """The number of the process that forks the decoders of uploads, once there was one."""
        return next((number for number, name in self._spawned() if name == "ds2-forker"), None)

    def decoders(self) -> set[int]:
        """The numbers of the processes that decode uploads."""
        with contextlib.suppress(OSError):
            forker = self.forker()
            return {int(number) for number in Path(f"/proc/{forker}/task/{forker}/children").read_text().split()}
        return set()

    def _spawned(self) -> list[tuple[int, str]]:
        """The numbers and names of the server's processes."""
        command = ["ps", "-ww", "-o", "pid=,comm=,args=", "--ppid", str(self.process.pid)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = [line.split(maxsplit=2) for line in listing.splitlines() if "spawn_main" in line]
        return [(int(number), name) for number, name, _ in lines]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs the tests that are coroutines (`pytest.mark.anyio`)."""
    return "asyncio"


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., RunningServer]]:
    """start(arguments..., environment={...}, open_files=...): a server, ended with the tests at the latest."""
    with contextlib.ExitStack() as stack:

        def run(*arguments: str, environment: dict[str, str] | None = None, open_files: int = 1024) -> RunningServer:
            server = RunningServer(*arguments, environment=environment, open_files=open_files)
            stack.callback(server.process.wait)
            stack.callback(server.process.stderr.close)  # type: ignore[union-attr]
            stack.callback(server.process.kill)
            return server

        yield run


@pytest.fixture(scope="session")
def server(start: Callable[..., RunningServer]) -> RunningServer:
    """One that the tests share; none of them may harm it."""
    return start()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1; its key lies beside it: key.pem."""
    certificate = tmp_path_factory.mktemp("tls") / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate)]
    subprocess.run([*command, "-keyout", str(certificate.with_name("key.pem"))], check=True, capture_output=True)
    return certificate


def tls_settings(certificate: Path) -> list[str]:
    """The arguments of a server that has the certificate."""
    key = certificate.with_name("key.pem")
    return ["--set", f'certificate="{certificate}"', "--set", f'certificate_key="{key}"']


@pytest.fixture(scope="session")
def spoken() -> dict[str, np.ndarray]:
    """Text and int16 samples at 8 kHz of a few strings of digits, speakers of the strangers split."""
    return dict(recordings(6))


def recordings(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Digit strings composed of single recordings of the test split, with pauses: no string twice."""
    rows = [json.loads(line) for line in (DIGITS / "utterances.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["audio_filepath"] == "fsdd_theo_test.flac"]
    whole, _ = soundfile.read(DIGITS / "fsdd_theo_test.flac", dtype="int16")
    random = np.random.default_rng(0)
    for _ in range(count):
        chosen = random.choice(len(rows), 4, replace=False)
        arrays, words = [np.zeros(1600, np.int16)], []
        for row in (rows[index] for index in chosen):
            start = round(row["offset"] * 8000)
            arrays += [whole[start : start + round(row["duration"] * 8000)], np.zeros(1200, np.int16)]
            words.append(row["text"])
        yield " ".join(words), np.concatenate(arrays)
