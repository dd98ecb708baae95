"""A soak test of `ds2 serve`: honest streams beside hostile clients.

    python benchmarks/soak.py [MANIFEST] [--hours 0.25] [--streams 20] [--attackers 20]

Honest clients send recordings in real time, and every transcript must equal that of the bundle offline. Attackers
vanish, flood, send garbage, single bytes or nothing, upload an hour of silence and leave, send half a header, hold
places with empty messages, send pings without reading, or pretend to be another host. Once a minute a model process is
killed while it serves, and killed again while it loads. Attackers connect from other loopback addresses than honest
clients, because the server limits the places of each address.

Prints a table. The exit code is 1 if an honest stream was lost or refused without a killed process, if a client waited
for ever, if a transcript differs, if an attack worked, if a stream stays open, or if the server's memory grows by more
than a tenth, or if it keeps more than 10 files open that it had not opened before the clients came. The default
manifest is the test set of the digits recipe.
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import soundfile
import websockets
from digits import manifest

from ds2.recognition.recognizer import Recognizer
from ds2.serve.load_test import Recording, load_recordings
from ds2.utils.model_names import locate

RECORDINGS = 60  # of the manifest
TIMEOUT_SECONDS = 60.0  # until a client counts as waiting for ever
AFTER_KILL_SECONDS = 30.0  # in which honest streams may fail because of a killed process
MEMORY_GROWTH = 1.1  # of the server, from early on to the end
MORE_FILES = 10  # that the server may keep open once all clients have left
PING = b"\x89\xfd" + bytes(4) + bytes(125)  # a masked frame
ATTACKS = (
    "vanishing", "garbage", "crumbs", "flooding", "silent", "slow", "bomb", "half_header", "empty_talk", "no_body",
    "rebinding", "pings",
)  # fmt: skip
SETTINGS = {
    "workers": 2,
    "limits.idle_seconds": 10,
    "limits.streams_per_minute": 100_000,
    "limits.streams_per_client": 40,
    "limits.upload_timeout_seconds": 10,
}


class AttackWorked(Exception):
    """The server did what it must not do."""


class Soak:
    """The clients and their outcomes."""

    def __init__(self, url: str, recordings: list[Recording], expected: list[str], until: float):
        self.url, self.recordings, self.expected, self.until = url, recordings, expected, until
        self.http = url.replace("ws", "http", 1)
        self.host, port = self.http.removeprefix("http://").split(":")
        self.port = int(port)
        self.counts: Counter[str] = Counter()
        self.random = random.Random(0)
        self.killed_at = -100.0
        self.bomb_file = an_hour_of_silence()

    async def client(self, manner: str, number: int) -> None:
        """One visit after the other, all of one manner, from one address."""
        address = "127.0.0.1" if manner == "honest" else f"127.0.0.{2 + number % 5}"
        while time.monotonic() < self.until:
            began = time.monotonic()
            try:
                await asyncio.wait_for(getattr(self, manner)(address), TIMEOUT_SECONDS)
                self.counts[manner] += 1
            except TimeoutError:
                self.counts[f"WAITED FOR EVER: {manner}"] += 1
            except AttackWorked as error:
                self.counts[f"ATTACK WORKED: {error}"] += 1
            except (OSError, EOFError, websockets.WebSocketException, httpx.HTTPError, RuntimeError) as error:
                excused = self.killed_at > began - AFTER_KILL_SECONDS or manner != "honest"
                self.counts[f"{manner}: refused or failed" if excused else f"LOST: {error}"] += 1
                await asyncio.sleep(0.5)

    def connect(self, address: str) -> websockets.connect:
        return websockets.connect(self.url, local_addr=(address, 0), open_timeout=TIMEOUT_SECONDS)

    def recording(self) -> Recording:
        return self.random.choice(self.recordings)

    async def honest(self, address: str) -> None:
        """Vosk's own test client, in real time."""
        number = self.random.randrange(len(self.recordings))
        async with self.connect(address) as socket:
            replies, data = [], self.recordings[number].data
            for start in range(0, len(data), 3200):
                await socket.send(data[start : start + 3200])
                replies.append(json.loads(await socket.recv()))
                await asyncio.sleep(0.2)
            await socket.send('{"eof" : 1}')
            replies.append(json.loads(await socket.recv()))
        if "error" in replies[-1]:
            raise RuntimeError(replies[-1]["error"])
        text = " ".join(reply["text"] for reply in replies if reply.get("text"))
        if text != self.expected[number]:
            self.counts["DIFFERS"] += 1

    async def vanishing(self, address: str) -> None:
        """Aborts the connection in the middle of an utterance."""
        async with self.connect(address) as socket:
            await socket.send(self.recording().data[: self.random.randrange(40_000)])
            await asyncio.sleep(self.random.random())
            socket.transport.abort()

    async def garbage(self, address: str) -> None:
        """Sends invalid messages, and samples that are not finite."""
        async with self.connect(address) as socket:
            kind = self.random.randrange(5)
            message = ["{", "[1]", '{"config": {"sample_rate": -1}}', '{"config": {"encoding": "float32"}}', "\0"][kind]
            await socket.send(message)
            await socket.send(np.full(1000, np.nan, "<f4").tobytes())
            async for _ in socket:
                pass

    async def crumbs(self, address: str) -> None:
        """Sends single bytes."""
        async with self.connect(address) as socket:
            for byte in self.recording().data[6000:6100]:  # an answer takes 0.2 s beside all the others
                await socket.send(bytes([byte]))
                await socket.recv()
            await socket.send('{"eof": 1}')
            await socket.recv()

    async def flooding(self, address: str) -> None:
        """Sends as fast as the socket takes it, 10 MB messages among it, and reads nothing."""
        async with self.connect(address) as socket:
            for _ in range(200):
                await socket.send(bytes(100_000))
            await socket.send(bytes(10 << 20))
            await asyncio.sleep(1)

    async def silent(self, address: str) -> None:
        """Sends half a word, and nothing more until the server closes."""
        async with self.connect(address) as socket:
            await socket.send(self.recording().data[:4001])
            async for _ in socket:
                pass

    async def slow(self, address: str) -> None:
        """Sends slower than real time."""
        async with self.connect(address) as socket:
            data = self.recording().data[:8000]
            for start in range(0, len(data), 800):
                await socket.send(data[start : start + 800])
                await asyncio.sleep(0.3)
            await socket.send('{"eof": 1}')
            async for _ in socket:
                pass

    async def bomb(self, address: str) -> None:
        """Uploads an hour of silence in a megabyte, and leaves after a second or two."""
        transport = httpx.AsyncHTTPTransport(local_address=address)
        timeout = httpx.Timeout(20.0, read=1.0 + self.random.random())
        async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
            with contextlib.suppress(httpx.ReadTimeout):
                await client.post(f"{self.http}/v1/audio/transcriptions", files={"file": self.bomb_file})

    async def pings(self, address: str) -> None:
        """Sends pings as fast as the server takes them, and reads no pong."""
        async with self.connect(address) as socket:
            socket.transport.pause_reading()
            for _ in range(200):
                socket.transport.write(1000 * PING)
                await asyncio.sleep(0.01)
            socket.transport.abort()

    async def half_header(self, address: str) -> None:
        """Sends a request that never ends, over several connections."""
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
        await asyncio.gather(*(self.until_closed(address, head) for _ in range(20)))

    async def no_body(self, address: str) -> None:
        """Announces an upload that never comes."""
        head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        await self.until_closed(address, f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x".encode())

    async def empty_talk(self, address: str) -> None:
        """Holds a place with messages without sound."""
        async with self.connect(address) as socket:
            while True:
                try:
                    await socket.send('{"config": {}}')
                    await asyncio.sleep(1.0)
                except websockets.ConnectionClosed:
                    return

    async def rebinding(self, address: str) -> None:
        """Connects as a page would whose name was bound to the server's address."""
        names = "Host: evil.example\r\nOrigin: http://evil.example\r\n"
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        answer = await self.until_closed(address, f"GET / HTTP/1.1\r\n{names}{upgrade}{key}\r\n".encode())
        if answer and not answer.startswith(b"HTTP/1.1 403 "):
            raise AttackWorked(f"rebinding: {answer[:30]!r}")
        await asyncio.sleep(1.0)

    async def until_closed(self, address: str, data: bytes) -> bytes:
        """Sends bytes, and waits until the server closes the connection; what it sent."""
        reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=(address, 0))
        try:
            writer.write(data)
            return await reader.read()
        finally:
            writer.close()


def an_hour_of_silence() -> bytes:
    """FLAC of a megabyte that holds an hour at 96 kHz."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", 96_000, 1, format="FLAC") as sound:
        for _ in range(60):
            sound.write(np.zeros(60 * 96_000, np.int16))
    return file.getvalue()


async def kill_workers(server: int, soak: Soak) -> None:
    """Kills a model process that serves and, half a second after it comes back, the one that loads in its place."""
    soak.killed_at = time.monotonic()
    before = set(children(server))
    os.kill(min(before), signal.SIGKILL)
    soak.counts["kills while serving"] += 1
    while not (new := set(children(server)) - before):
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)
    with contextlib.suppress(ProcessLookupError):
        os.kill(new.pop(), signal.SIGKILL)
        soak.counts["kills while loading"] += 1


async def run(server: int, soak: Soak, honest: int, attackers: int) -> int:
    """All clients until the end; the exit code."""
    memory: list[float] = []
    files = open_files(server)
    interval = min(30.0, (soak.until - time.monotonic()) / 5)

    async def watch() -> None:
        while time.monotonic() < soak.until:
            await asyncio.sleep(interval)
            memory.append(resident(server))
            print(f"{memory[-1]:.0f} MB, {dict(soak.counts)}", file=sys.stderr, flush=True)
            if len(memory) % 2 == 0 and time.monotonic() < soak.until - AFTER_KILL_SECONDS:
                await kill_workers(server, soak)

    crowd = [soak.client("honest", number) for number in range(honest)]
    crowd += [soak.client(ATTACKS[number % len(ATTACKS)], number) for number in range(attackers)]
    await asyncio.gather(watch(), *crowd)
    await asyncio.sleep(1)
    left = open_streams(soak.url)
    until = time.monotonic() + AFTER_KILL_SECONDS
    while (kept := open_files(server)) > files + MORE_FILES and time.monotonic() < until:
        await asyncio.sleep(0.5)
    print("| | |\n|---|---|")
    early, last, most = memory[len(memory) // 5], memory[-1], max(memory)
    print(f"| memory of the server, MB | {early:.0f} early, {last:.0f} at the end, {most:.0f} at most |")
    print(f"| streams left open | {left:.0f} |")
    print(f"| open files of the server | {files} before, {kept} afterwards |")
    if kept > files + MORE_FILES:
        soak.counts["OPEN FILES"] = kept - files
    if last > MEMORY_GROWTH * early:
        soak.counts["MEMORY GREW: MB"] = round(last - early)
    for name, number in sorted(soak.counts.items()):
        print(f"| {name} | {number} |")
    return 1 if left or any(name.split(":")[0].isupper() for name in soak.counts) else 0


def offline(recordings: list[Recording]) -> list[str]:
    recognizer = Recognizer.load(locate("digits-streaming"))
    sounds = (np.frombuffer(recording.data, "<i2").astype(np.float32) / 32768 for recording in recordings)
    return [recognizer.transcribe(samples, 8000).text for samples in sounds]


def children(process: int) -> list[int]:
    """The model processes."""
    command = ["ps", "-ww", "-o", "pid=,comm=,args=", "--ppid", str(process)]
    listing = subprocess.run(command, capture_output=True, text=True).stdout
    lines = [line.split(maxsplit=2) for line in listing.splitlines() if "spawn_main" in line]
    return [int(number) for number, name, _ in lines if name != "ds2-forker"]


def resident(process: int) -> float:
    """MB of a process in memory."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def open_files(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def open_streams(url: str) -> float:
    with urllib.request.urlopen(url.replace("ws", "http", 1) + "/metrics") as answer:
        found = re.search(r"^ds2_streams_open (\S+)", answer.read().decode(), re.M)
    assert found is not None
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, nargs="?")
    parser.add_argument("--hours", type=float, default=1 / 6)
    parser.add_argument("--streams", type=int, default=20, help="honest streams")
    parser.add_argument("--attackers", type=int, default=20)
    arguments = parser.parse_args()
    recordings = load_recordings(arguments.manifest or manifest("test"))[:RECORDINGS]
    expected = offline(recordings)
    command = [sys.executable, "-m", "ds2", "serve", "--model", "digits-streaming", "--port", "0"]
    command += [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        ready = next(line for line in server.stderr if '"event": "ready"' in line)
        url = json.loads(ready)["url"].replace("http", "ws")
        threading.Thread(target=server.stderr.read, daemon=True).start()
        try:
            soak = Soak(url, recordings, expected, time.monotonic() + 3600 * arguments.hours)
            raise SystemExit(asyncio.run(run(server.pid, soak, arguments.streams, arguments.attackers)))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
