"""Uploads that would take more than their share: of memory, time, places, disk."""

import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from serve.conftest import RunningServer

from ds2.serve.uploads import CHUNK_SECONDS, iter_upload

Start = Callable[..., RunningServer]


def silence(path: Path, minutes: int, rate: int) -> Path:
    with soundfile.SoundFile(path, "w", rate, 1) as sound:
        for _ in range(minutes):
            sound.write(np.zeros(60 * rate, np.int16))
    return path


def peak(process: int) -> int:
    """Bytes that a process has had in memory at most."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def test_a_bomb_is_decoded_in_blocks_and_only_while_its_client_waits(start: Start, tmp_path: Path) -> None:
    """20 minutes at 96 kHz in 400 KB, 460 MB as samples; the model is stopped, so that nothing is recognised."""
    server, path = start(), silence(tmp_path / "bomb.flac", 20, 96_000)
    url = f"{server.url}/v1/audio/transcriptions"
    httpx.post(url, files={"file": silence(tmp_path / "first.flac", 1, 96_000).read_bytes()}, timeout=60)  # imports
    before = peak(server.process.pid)
    with server.standing_still():
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, files={"file": path.read_bytes()}, timeout=httpx.Timeout(100, read=3))
        while server.metric("ds2_streams_open"):  # its thread has ended then
            time.sleep(0.01)
    assert peak(server.process.pid) < before + 50_000_000


def test_the_decoded_sound_of_all_uploads_is_limited(start: Start, tmp_path: Path) -> None:
    server, path = start("--set", "limits.decoded_bytes=1"), silence(tmp_path / "one.flac", 1, 8000)
    url, files = f"{server.url}/v1/audio/transcriptions", {"file": path.read_bytes()}
    assert httpx.post(url, files=files, timeout=60).status_code == 200
    with server.standing_still(), httpx.stream("POST", url, files=files, data={"stream": "true"}, timeout=100) as first:
        refused = httpx.post(url, files=files, timeout=60)
        assert (first.status_code, refused.status_code) == (200, 503)
        assert "1 uploads are being recognised" in refused.text
    while server.metric("ds2_streams_open"):
        time.sleep(0.01)
    assert httpx.post(url, files=files, timeout=60).status_code == 200


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
