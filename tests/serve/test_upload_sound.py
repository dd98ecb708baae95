"""Uploads that would take more than their share: of memory, time, places, disk."""

import asyncio
import contextlib
import mmap
import os
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from fuzz.containers import webm
from serve.conftest import RunningServer

from ds2.serve import upload_decoding
from ds2.serve.fair_places import Turns
from ds2.serve.upload_sound import CHUNK_SECONDS, iter_upload

Start = Callable[..., RunningServer]
PATIENT = (
    "--set",
    "limits.max_queue_seconds=100",
    "--set",
    "limits.worker_timeout_seconds=100",
)  # with a stopped model


@pytest.fixture(scope="module")
def hurt(start: Start) -> RunningServer:
    """A server whose processes are stopped and killed."""
    return start(*PATIENT)


def silence(path: Path, minutes: int, rate: int) -> Path:
    with soundfile.SoundFile(path, "w", rate, 1) as sound:
        for _ in range(minutes):
            sound.write(np.zeros(60 * rate, np.int16))
    return path


def peak(process: int) -> int:
    """Bytes that a process has had in memory at most; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{process}/status").read_text().partition("VmHWM:")[2].split()
    except OSError:
        return 0
    return 1024 * int(fields[0]) if fields else 0  # a process that nobody has waited for has no such line


def test_a_bomb_is_decoded_in_blocks_and_only_while_its_client_waits(start: Start, tmp_path: Path) -> None:
    """20 minutes at 96 kHz in 400 KB, 460 MB as samples; the model is stopped, so that nothing is recognised."""
    server, path = start(), silence(tmp_path / "bomb.flac", 20, 96_000)
    url = f"{server.url}/v1/audio/transcriptions"
    httpx.post(url, files={"file": silence(tmp_path / "first.flac", 1, 96_000).read_bytes()}, timeout=60)  # imports
    before = peak(server.process.pid)
    with server.standing_still():
        with ThreadPoolExecutor() as pool:
            timeout = httpx.Timeout(100, read=3)
            left, most = pool.submit(httpx.post, url, files={"file": path.read_bytes()}, timeout=timeout), 0
            while not left.done():
                most = max(most, 0, *map(peak, server.decoders()))
            assert isinstance(left.exception(), httpx.ReadTimeout)
        while server.decoders():
            time.sleep(0.01)
    assert 0 < most < 100_000_000
    assert peak(server.process.pid) < before + 20_000_000


def test_few_uploads_are_decoded_at_once_and_others_wait_for_their_turn(start: Start, tmp_path: Path) -> None:
    """The one that leaves while it waits takes no turn."""
    server, path = start(*PATIENT, "--set", "limits.decoded_bytes=1"), silence(tmp_path / "one.flac", 1, 8000)
    url, files = f"{server.url}/v1/audio/transcriptions", {"file": path.read_bytes()}
    assert httpx.post(url, files=files, timeout=60).status_code == 200
    with (
        ThreadPoolExecutor() as pool,
        server.standing_still(),
        httpx.stream("POST", url, files=files, data={"stream": "true"}, timeout=100) as first,
    ):
        assert first.status_code == 200
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, files=files, timeout=httpx.Timeout(100, read=1))
        while server.metric("ds2_streams_open") > 1:
            time.sleep(0.01)
        last = pool.submit(httpx.post, url, files=files, timeout=100)
        while server.metric("ds2_streams_open") < 2:
            time.sleep(0.01)
        assert len(server.decoders()) == 1
    assert last.result().status_code == 200
    while server.metric("ds2_streams_open"):
        time.sleep(0.01)


def test_a_decoder_that_breaks_fails_its_upload_alone(hurt: RunningServer, tmp_path: Path) -> None:
    server, path = hurt, silence(tmp_path / "long.flac", 1, 8000)
    url, files = f"{server.url}/v1/audio/transcriptions", {"file": ("long.flac", path.read_bytes())}
    with ThreadPoolExecutor() as pool:
        with server.standing_still():
            other = pool.submit(httpx.post, url, files=files, timeout=100)
            while len(before := server.decoders()) < 1:
                time.sleep(0.01)
            broken = pool.submit(httpx.post, url, files=files, timeout=100)
            while not (new := server.decoders() - before):
                time.sleep(0.01)
            os.kill(new.pop(), signal.SIGSEGV)
        assert broken.result().status_code == 400
        reason = "long.flac: its decoder broke or took too much memory or time; convert it to FLAC or MP3"
        assert broken.result().json()["error"]["message"] == reason
        assert other.result().status_code == 200


def test_the_forker_is_replaced(hurt: RunningServer, tmp_path: Path) -> None:
    """The decoders that it left go on."""
    server, path = hurt, silence(tmp_path / "long.flac", 1, 8000)
    url, files = f"{server.url}/v1/audio/transcriptions", {"file": path.read_bytes()}
    with ThreadPoolExecutor() as pool:
        with server.standing_still():
            before = pool.submit(httpx.post, url, files=files, timeout=100)
            while not server.decoders():
                time.sleep(0.01)
            os.kill(server.forker(), signal.SIGKILL)
        assert before.result().status_code == 200
    assert httpx.post(url, files=files, timeout=100).status_code == 200


def test_a_decoder_ends_with_its_client_while_it_measures_a_crafted_file(hurt: RunningServer) -> None:
    """Two million packets of a byte each take ten seconds of a processor to count."""
    server = hurt
    url, files = f"{server.url}/v1/audio/transcriptions", {"file": webm(blocks=31_000, packets=256)}
    with ThreadPoolExecutor() as pool:
        left = pool.submit(httpx.post, url, files=files, timeout=httpx.Timeout(100, read=2))
        while not server.decoders():
            time.sleep(0.01)
        assert left.exception() is not None
    while server.decoders():
        time.sleep(0.01)
    assert server.metric("ds2_streams_open") == 0


def test_a_decoder_ends_also_when_its_client_left_before_it_took_all_of_the_answer() -> None:
    """The system then reports a connection that was reset, of which a decoder told the log in a traceback."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.send(b"sound")
        ours.close()
        if (child := os.fork()) == 0:
            try:
                upload_decoding._end_with(theirs)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_decoder_has_limits_of_memory_and_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_decoding, "LEAST_SECONDS", 2.0)
    monkeypatch.setattr(upload_decoding, "PRECEDENCE", 1)  # other processes would make the test long
    with tempfile.TemporaryFile() as precedence:
        number = os.fork()
        if number == 0:
            upload_decoding._limit_decoder(0.0)
            with contextlib.suppress(OSError):
                mmap.mmap(-1, upload_decoding.DECODER_BYTES + mmap.PAGESIZE)
                os._exit(1)
            while True:
                os.pwrite(precedence.fileno(), b"%d" % os.nice(0), 0)
        assert os.waitpid(number, 0)[1] == signal.SIGKILL
        assert precedence.read() == b"%d" % (os.nice(0) + upload_decoding.PRECEDENCE)


def test_turns_go_to_the_client_that_holds_the_fewest_and_nobody_holds_all() -> None:
    async def hold(turns: Turns, client: str, order: list[str], left: asyncio.Event) -> None:
        async with turns.place(client):
            order.append(client)
            await left.wait()

    async def queue() -> list[str]:
        turns, order, left = Turns(4), [], asyncio.Event()
        clients = [asyncio.create_task(hold(turns, client, order, left)) for client in "aaaaabbc"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["a", "a", "a", "b"]  # three quarters for one
        clients[4].cancel()
        left.set()
        await asyncio.gather(*clients, return_exceptions=True)
        assert not turns.held
        assert not turns.waiting
        return order

    assert asyncio.run(queue())[4:] == ["c", "a", "b"]  # of two that hold as many the first


def test_an_upload_that_drips_ends_at_its_deadline(start: Start) -> None:
    server = start("--set", "limits.upload_timeout_seconds=1.0")
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 100) as client:
        client.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode())
        client.sendall(b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n')
        while not select.select([client], [], [], 0.1)[0]:
            client.sendall(b"x")
        answer = b"".join(iter(lambda: client.recv(10_000), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"took more than 1 s" in answer


def test_a_full_temporary_folder_is_told_in_one_line(start: Start, small_disk: Path) -> None:
    server = start(environment={"TMPDIR": str(small_disk)})
    answer = httpx.post(f"{server.url}/v1/audio/transcriptions", files={"file": bytes(3 << 20)}, timeout=100)
    assert answer.status_code == 507
    assert "cannot be stored" in answer.json()["error"]["message"]
    assert {line["level"] for line in server.stop()} == {"info"}


def test_pieces_are_bounded_whatever_the_rates(tmp_path: Path) -> None:
    path = tmp_path / "slow.wav"
    soundfile.write(path, np.zeros(100_000, np.int16), 1000)
    with path.open("rb") as file:
        sizes = [len(data) // 4 for data in iter_upload(file, "slow.wav", 16_000, 1000.0)]
    assert sum(sizes) == pytest.approx(1_600_000, abs=1000)
    assert max(sizes) <= CHUNK_SECONDS * 16_000
