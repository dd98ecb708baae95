"""The server as an operator sees it: health, limits, keys, faults, the end."""

import asyncio
import contextlib
import io
import json
import os
import pty
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import websockets
from serve.conftest import RunningServer, tls_settings
from serve.test_websocket_session import close_code, hear, lock_step, tell, text_of
from websockets import ClientConnection
from websockets.exceptions import InvalidStatus

from ds2.serve.application import Application, make_app
from ds2.serve.config import ServeConfig
from ds2.serve.server import _listening_socket, warn_if_exposed
from ds2.utils.errors import InputError

pytestmark = pytest.mark.anyio

Start = Callable[..., RunningServer]


async def refusal(url: str, **options: Any) -> tuple[int, dict[str, Any], websockets.Headers]:
    """How a WebSocket is turned away."""
    with pytest.raises(InvalidStatus) as refused:
        await websockets.connect(url, **options)
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"{}").get("error", {}), response.headers


async def test_health_and_metrics(server: RunningServer, spoken: dict[str, np.ndarray]) -> None:
    assert server.get("/healthz") == "ok\n"
    assert server.get("/readyz") == "ready\n"
    before = server.metric("ds2_final_latency_seconds_count")
    samples = next(iter(spoken.values()))
    async with websockets.connect(server.live) as socket:
        await lock_step(socket, samples)
    assert server.metric("ds2_final_latency_seconds_count") == before + 1
    assert server.metric("ds2_batch_size_count") > 0
    assert server.metric("ds2_sound_seconds_total") > len(samples) / 8000 - 0.2
    assert server.metric("ds2_busy_seconds_total") > 0


def test_uploads_are_not_among_the_latencies_of_live_clients(
    server: RunningServer, spoken: dict[str, np.ndarray]
) -> None:
    before = server.metric("ds2_final_latency_seconds_count")
    samples = next(iter(spoken.values()))
    assert httpx.post(f"{server.url}/v1/audio/transcriptions", files=upload_of(samples), timeout=60).status_code == 200
    assert server.metric("ds2_upload_seconds_count") > 0
    assert server.metric("ds2_final_latency_seconds_count") == before


def test_the_page_can_do_nothing_but_what_it_needs(server: RunningServer) -> None:
    for path in ("/", "/page.js", "/page.css", "/worklet.js"):
        headers = httpx.get(server.url + path, timeout=60).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/..%2f..%2fetc/passwd", "/page.js/../../server.py", "/page/index.html", "//etc/passwd"],
)
def test_there_are_no_other_files(server: RunningServer, path: str) -> None:
    assert httpx.get(httpx.URL(server.url).copy_with(raw_path=path.encode()), timeout=60).status_code == 404


async def test_pages_of_other_hosts_cannot_come_in(server: RunningServer, start: Start) -> None:
    code, error, _ = await refusal(server.live, origin="http://evil.example")
    assert code == 403
    assert "origin" in error["message"]
    async with websockets.connect(server.live, origin=server.url) as socket:
        await tell(socket, {"eof": 1})
        assert await hear(socket) == {"text": ""}


@pytest.fixture(scope="module")
def strict(start: Start, tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    """One with narrow limits, by a file, and keys, by the environment."""
    config = tmp_path_factory.mktemp("strict") / "serve.toml"
    config.write_text(
        "[limits]\nwrong_keys_per_minute = 100\nstreams = 2\nidle_seconds = 0.5\nstream_seconds = 20.0\n"
        "upload_bytes = 100000\nupload_audio_seconds = 5.0\nbacklog_seconds = 8.0\n"
    )
    return start("--config", str(config), environment={"DS2_SERVE_API_KEYS": '["first", "geheim-ü"]'})


KEY = {"Authorization": "Bearer first"}


def test_no_key_no_entry(strict: RunningServer, spoken: dict[str, np.ndarray]) -> None:
    """A browser sends its key as a subprotocol."""
    text, samples = next(iter(spoken.items()))

    async def visit() -> None:
        assert (await refusal(strict.live))[0] == 401
        assert (await refusal(strict.live, additional_headers={"Authorization": "Bearer wrong"}))[0] == 401
        assert (await refusal(strict.live, subprotocols=["ds2", "ds2.key.wrong"]))[0] == 401
        async with websockets.connect(strict.live, additional_headers=KEY) as socket:
            assert text_of(await lock_step(socket, samples)) == text
        async with websockets.connect(strict.live, subprotocols=["ds2", "ds2.key.first"]) as socket:
            assert socket.subprotocol == "ds2"

    asyncio.run(visit())
    for path in ("/metrics", "/v1/models"):
        assert httpx.get(strict.url + path, timeout=60).status_code == 401
        assert httpx.get(strict.url + path, headers=KEY, timeout=60).status_code == 200
    answer = httpx.post(f"{strict.url}/v1/audio/transcriptions", files={"file": b"x"}, timeout=60)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    assert httpx.get(f"{strict.url}/healthz", timeout=60).status_code == 200


async def test_one_stream_too_many_is_refused(strict: RunningServer) -> None:
    options = {"additional_headers": KEY}
    async with websockets.connect(strict.live, **options), websockets.connect(strict.live, **options):
        code, error, headers = await refusal(strict.live, **options)
        assert code == 503
        assert "streams open: 2" in error["message"]
        assert int(headers["retry-after"]) > 0


async def test_a_stream_that_ends_behind_a_reset_makes_room_for_the_next(strict: RunningServer) -> None:
    """One more than there is room for, one after the other."""
    for _ in range(3):
        deadline = time.monotonic() + 60.0
        while True:
            try:
                socket = await websockets.connect(strict.live, additional_headers=KEY)
                break
            except InvalidStatus as refusal:  # the place is free a moment after the client has seen the close
                if refusal.response.status_code != 503 or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
        async with socket:
            for message in (bytes(8000), {"reset": 1}, {"eof": 1}):
                await tell(socket, message)
                await hear(socket)
            assert (await close_code(socket))[0] == 1000


async def test_a_stream_that_falls_silent_gets_its_final_result(
    strict: RunningServer, spoken: dict[str, np.ndarray]
) -> None:
    text, samples = next(iter(spoken.items()))

    def refusals() -> str:
        text = httpx.get(f"{strict.url}/metrics", headers=KEY, timeout=60).text
        return text.partition('ds2_rejections_total{reason="limits"} ')[2].split("\n")[0]

    before = refusals()
    async with websockets.connect(strict.live, additional_headers=KEY) as socket:
        await socket.send(samples.tobytes())
        assert text_of([await hear(socket), await hear(socket)]) == text
        code, last = await close_code(socket)
        assert code == 1008
        assert "no sound came" in json.loads(last)["error"]
    for _ in range(6000):
        if refusals() != before:
            return
        await asyncio.sleep(0.01)
    pytest.fail("it was not counted")


async def test_far_faster_than_real_time_or_too_long_is_told(strict: RunningServer) -> None:
    async with websockets.connect(strict.live, additional_headers=KEY) as socket:
        with contextlib.suppress(websockets.ConnectionClosed):
            for _ in range(40):
                await socket.send(bytes(32000))
        code, last = await close_code(socket)
        assert code == 1008
        assert any(words in json.loads(last)["error"] for words in ("of sound wait", "may last"))


def test_uploads_that_are_too_large_are_refused(strict: RunningServer) -> None:
    url = f"{strict.url}/v1/audio/transcriptions"
    answer = httpx.post(url, files={"file": bytes(300_000)}, headers=KEY, timeout=60)
    assert answer.status_code == 413
    assert "a file may have 100,000 bytes" in answer.json()["error"]["message"]

    def endless() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(100):
            yield bytes(10_000)

    headers = {"content-type": "multipart/form-data; boundary=x", **KEY}
    assert httpx.post(url, content=endless(), headers=headers, timeout=60).status_code == 413


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(100_000, 400), (100_001, 413)])  # 400: no sound, but not too large
def test_the_size_of_the_file_alone_counts(strict: RunningServer, chunked: bool, size: int, status: int) -> None:
    """What a request has besides the file is no part of the limit."""
    url = f"{strict.url}/v1/audio/transcriptions"
    fields = {"data": {"prompt": "five, " * 1000}, "files": {"file": ("a.wav", bytes(size))}}
    request = httpx.Request("POST", url, **fields)  # type: ignore[arg-type]
    whole = request.read()
    content = iter([whole[:70_000], whole[70_000:]]) if chunked else whole
    headers = {"content-type": request.headers["content-type"], **KEY}
    answer = httpx.post(url, content=content, headers=headers, timeout=60)
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == "file"
    assert ("a file may have 100,000 bytes" in answer.json()["error"]["message"]) == (status == 413)


def test_an_upload_that_does_not_come_gives_its_place_back(strict: RunningServer) -> None:
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Length: 1000\r\nAuthorization: Bearer first\r\n"
    with socket.create_connection(("127.0.0.1", int(strict.url.rpartition(":")[2])), 10) as client:
        client.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert "ds2_streams_open 0.0" in httpx.get(f"{strict.url}/metrics", headers=KEY, timeout=60).text


def upload_of(samples: np.ndarray) -> dict[str, tuple[str, bytes]]:
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format="WAV")
    return {"file": ("said.wav", file.getvalue())}


def test_a_streamed_transcript_holds_its_place_to_its_end(server: RunningServer, spoken: dict[str, np.ndarray]) -> None:
    text, samples = next(iter(spoken.items()))
    url = f"{server.url}/v1/audio/transcriptions"
    with contextlib.ExitStack() as stack:
        with server.standing_still():
            streaming = httpx.stream("POST", url, files=upload_of(samples), data={"stream": "true"}, timeout=100)
            answer = stack.enter_context(streaming)
            assert server.metric("ds2_streams_open") == 1
        assert text in answer.read().decode()


def test_an_upload_whose_client_goes_away_gives_its_place_back(
    server: RunningServer, spoken: dict[str, np.ndarray]
) -> None:
    url = f"{server.url}/v1/audio/transcriptions"
    with server.standing_still():
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, files=upload_of(next(iter(spoken.values()))), timeout=httpx.Timeout(100, read=0.5))
        for _ in range(6000):
            if server.metric("ds2_streams_open") == 0:
                return
            time.sleep(0.01)
        pytest.fail("its place is still taken")


async def test_a_fault_of_ours_is_told_in_openais_form() -> None:
    """The application lacks what answers uploads."""
    application = Application(ServeConfig(), Path("model.safetensors"))
    del application.transcriptions
    transport = httpx.ASGITransport(make_app(application), raise_app_exceptions=False)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/v1/audio/transcriptions", timeout=60)
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_uploads_that_are_none_are_refused(strict: RunningServer) -> None:
    url = f"{strict.url}/v1/audio/transcriptions"
    for body, kind in ((b"{", "application/json"), (b"junk", "multipart/form-data"), (b"", "text/plain")):
        answer = httpx.post(url, content=body, headers={"content-type": kind, **KEY}, timeout=60)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_ping_and_health_are_answered_while_the_model_stands_still(server: RunningServer) -> None:
    """Nothing of the model runs where the sockets are; nothing is lost."""
    async with websockets.connect(server.live) as socket:
        with server.standing_still():
            for _ in range(30):
                await socket.send(bytes(16000))
            assert await asyncio.wait_for(await socket.ping(), 60) < 60
            assert server.get("/healthz") == "ok\n"
        await tell(socket, {"eof": 1})
        assert len([message async for message in socket]) == 31


@pytest.mark.parametrize("message", [bytes(100_000), "x" * 100_000], ids=["sound", "text"])
async def test_what_waits_of_a_stream_is_bounded_while_the_model_stands_still(
    server: RunningServer, message: bytes | str
) -> None:
    async with websockets.connect(server.live) as socket:
        with server.standing_still():
            with contextlib.suppress(websockets.ConnectionClosed):
                await socket.send(bytes(50_000))  # 3 s: the reply waits for the model
                for _ in range(40):
                    await socket.send(message)
            assert (await close_code(socket))[0] == 1008


def test_a_killed_model_process_fails_its_streams_alone_and_comes_back(
    start: Start, spoken: dict[str, np.ndarray]
) -> None:
    server = start("--workers", "2")
    text, samples = next(iter(spoken.items()))

    async def finish(socket: ClientConnection) -> list[dict[str, Any]]:
        with contextlib.suppress(websockets.ConnectionClosed):
            await socket.send(samples[8000:].tobytes())
            await tell(socket, {"eof": 1})
        replies = []
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                replies.append(await hear(socket))
        return replies

    async def visit() -> None:
        async with websockets.connect(server.live) as one, websockets.connect(server.live) as two:
            for socket in (one, two):
                await socket.send(samples[:8000].tobytes())
                await hear(socket)
            os.kill(server.workers()[0], signal.SIGKILL)
            failed, finished = sorted(
                [await finish(one), await finish(two)], key=lambda replies: "error" not in replies[-1]
            )
            assert "stopped" in failed[-1]["error"]
            assert text_of(finished) == text
        while len(server.workers()) < 2:
            await asyncio.sleep(0.02)
        assert server.metric("ds2_worker_restarts_total") == 1
        os.kill(server.workers()[0], signal.SIGKILL)  # the other: only the new one is left
        while True:
            with contextlib.suppress(InvalidStatus, websockets.ConnectionClosed, KeyError):
                async with websockets.connect(server.live) as socket:
                    replies = await lock_step(socket, samples)
                    if "error" not in replies[-1]:
                        assert text_of(replies) == text
                        return
            await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(visit(), 200))


def test_a_model_process_without_memory_is_replaced(start: Start, spoken: dict[str, np.ndarray]) -> None:
    server = start()
    [worker] = server.workers()
    text, samples = next(iter(spoken.items()))

    async def visit() -> None:
        async with websockets.connect(server.live) as socket:
            await socket.send(samples[:8000].tobytes())
            await hear(socket)
            resource.prlimit(worker, resource.RLIMIT_AS, (1, 1))
            await socket.send(bytes(16000 * 20))
            _, last = await close_code(socket)
            assert "stopped" in json.loads(last)["error"]
        while httpx.get(f"{server.url}/readyz", timeout=60).status_code != 200:
            await asyncio.sleep(0.05)
        async with websockets.connect(server.live) as socket:
            assert text_of(await lock_step(socket, samples)) == text

    asyncio.run(asyncio.wait_for(visit(), 200))
    assert server.workers() != [worker]
    assert any("out of memory" in line["event"] for line in server.stop())


def test_a_model_process_that_hangs_is_given_no_stream(start: Start, spoken: dict[str, np.ndarray]) -> None:
    """Sound too short for a step, on the other hand, is no sign of it."""
    server = start("--set", "limits.max_queue_seconds=0.5")
    [worker] = server.workers()
    text, samples = next(iter(spoken.items()))

    async def readiness(code: int) -> None:
        while httpx.get(f"{server.url}/readyz", timeout=60).status_code != code:
            await asyncio.sleep(0.02)

    async def visit() -> None:
        async with websockets.connect(server.live) as other:
            await other.send(bytes(2))
            await hear(other)
            await asyncio.sleep(0.6)
            await readiness(200)
            os.kill(worker, signal.SIGSTOP)
            await other.send(bytes(16000))
            await readiness(503)
            async with websockets.connect(server.live) as socket:
                await socket.send(bytes(2))
                code, last = await close_code(socket)
                assert code == 1013
                assert "behind" in json.loads(last)["error"]
            os.kill(worker, signal.SIGCONT)
            await readiness(200)
            async with websockets.connect(server.live) as socket:
                assert text_of(await lock_step(socket, samples)) == text

    asyncio.run(asyncio.wait_for(visit(), 200))


@pytest.mark.long
async def test_a_model_process_that_hangs_for_long_is_replaced(start: Start, spoken: dict[str, np.ndarray]) -> None:
    server = start("--set", "limits.worker_timeout_seconds=8")
    [worker] = server.workers()
    text, samples = next(iter(spoken.items()))
    async with websockets.connect(server.live) as socket:
        await socket.send(samples[:8000].tobytes())
        await hear(socket)
        os.kill(worker, signal.SIGSTOP)
        await socket.send(samples[8000:].tobytes())
        _, last = await close_code(socket)
        assert "stopped" in json.loads(last)["error"]
    while httpx.get(f"{server.url}/readyz", timeout=60).status_code != 200:
        await asyncio.sleep(0.05)
    assert server.metric("ds2_worker_restarts_total") == 1
    assert server.workers() != [worker]
    async with websockets.connect(server.live) as socket:
        assert text_of(await lock_step(socket, samples)) == text


def test_sigterm_gives_live_streams_their_final_results_over_tls(
    start: Start, spoken: dict[str, np.ndarray], certificate: Path
) -> None:
    """While the model process stands still, so that a result is outstanding, nobody new comes in."""
    server = start(*tls_settings(certificate))
    assert server.url.startswith("https://")
    context = ssl.create_default_context(cafile=certificate)
    text, samples = next(iter(spoken.items()))

    async def visit() -> None:
        options = {"ssl": context}
        async with (
            websockets.connect(server.live, **options) as idle,
            websockets.connect(server.live, **options) as live,
        ):
            await live.send(samples.tobytes())
            replies = [await hear(live)]
            [worker] = server.workers()
            os.kill(worker, signal.SIGSTOP)
            server.process.send_signal(signal.SIGTERM)
            assert (await close_code(idle))[0] == 1012
            assert httpx.get(f"{server.url}/readyz", verify=context, timeout=60).status_code == 503
            code, error, _ = await refusal(server.live, **options)
            assert code == 503
            assert "shutting down" in error["message"]
            os.kill(worker, signal.SIGCONT)
            replies.append(await hear(live))
            assert text_of(replies) == text
            assert (await close_code(live))[0] == 1012

    asyncio.run(visit())
    _, errors = server.process.communicate(timeout=120)
    assert server.process.returncode == 0
    log = [json.loads(line) for line in errors.splitlines()]
    assert [line["event"] for line in log].count("stream") == 2
    assert text not in errors


def test_a_log_that_nobody_reads_holds_up_nobody(start: Start) -> None:
    """Some 130 bytes for each refusal, and a pipe holds 64 KB."""
    server = start("--set", 'api_keys=["secret"]', "--set", "limits.streams_per_minute=100000")
    with httpx.Client() as client:
        for _ in range(800):
            assert client.post(f"{server.url}/v1/audio/transcriptions", timeout=100).status_code == 401
    assert server.get("/healthz") == "ok\n"
    server.process.terminate()
    assert server.process.wait(timeout=120) == 0


def test_a_terminal_first_learns_which_page_to_open() -> None:
    """At once: who opens it before the model is ready gets the page all the same."""
    command = [sys.executable, "-m", "ds2", "serve", "--model", "digits-streaming", "--port", "0"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stderr=theirs) as process, os.fdopen(ours, "rb", buffering=0) as terminal:
        os.close(theirs)
        word, url = terminal.readline().decode().split()
        assert word == "open"
        assert "<title>ds2" in httpx.get(url, timeout=100).text
        process.terminate()
        with contextlib.suppress(OSError):  # the end of a terminal
            while terminal.read(1000):
                pass


@pytest.mark.parametrize("host", ["a\0b", "é" * 70, "[::1]"])
def test_a_host_that_cannot_be_one_is_refused_in_one_line(host: str) -> None:
    with pytest.raises(InputError, match="cannot listen here"):
        _listening_socket(ServeConfig(host=host, port=0), 1)


def test_sigterm_before_the_model_is_ready_stops_everything() -> None:
    command = [sys.executable, "-m", "ds2", "serve", "--model", "digits-streaming", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        listing = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)]
        while "spawn_main" not in (found := subprocess.run(listing, capture_output=True, text=True).stdout):
            assert process.poll() is None
        worker = next(int(line.split()[0]) for line in found.splitlines() if "spawn_main" in line)
        os.kill(worker, signal.SIGSTOP)  # it will never be ready
        process.terminate()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert [json.loads(line)["event"] for line in errors.splitlines()] == ["stopped before the model was ready"]
    assert not Path(f"/proc/{worker}").exists()


@pytest.mark.parametrize(
    ("config", "warnings"),
    [
        (ServeConfig(), 0),
        (ServeConfig(host="localhost"), 0),
        (ServeConfig(host="::1"), 0),
        (ServeConfig(host="0.0.0.0"), 2),
        (ServeConfig(host="speech.example", api_keys=("key",)), 1),
        (ServeConfig(host="0.0.0.0", certificate=Path("c"), certificate_key=Path("k")), 1),
    ],
)
def test_an_open_server_on_a_public_address_warns(
    config: ServeConfig, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_exposed(config)
    assert len(caplog.records) == warnings
