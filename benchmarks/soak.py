"""Ten minutes of bad manners: `ds2 serve` under clients that vanish, flood, send garbage or fall silent.

    python benchmarks/soak.py recipes/digits/data/test.jsonl [--minutes 10] [--streams 40]

Beside them go honest clients, whose every transcript is held against the one that the bundle gives offline. Now and
then a model process is killed. At the end: memory of the server (MB); finals lost, clients that waited for ever,
transcripts that differ and streams left open must be 0.
"""

import argparse
import asyncio
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

import numpy as np
import websockets

from ds2.bundle import locate
from ds2.recognition.recognizer import Recognizer
from ds2.serve.load_test import Recording, read_recordings

RECORDINGS = 60  # of the manifest
PATIENCE = 40.0  # seconds until a client says that it waits for ever


class Soak:
    """The clients and what they met."""

    def __init__(self, url: str, recordings: list[Recording], expected: list[str], until: float):
        self.url, self.recordings, self.expected, self.until = url, recordings, expected, until
        self.counts: Counter[str] = Counter()
        self.random = random.Random(0)
        self.killed_at = -100.0

    async def client(self, manner: str) -> None:
        """One visitor after the other, of one manner."""
        while time.monotonic() < self.until:
            began = time.monotonic()
            try:
                await asyncio.wait_for(getattr(self, manner)(), PATIENCE)
                self.counts[manner] += 1
            except TimeoutError:
                self.counts["WAITED FOR EVER"] += 1
            except (OSError, websockets.WebSocketException, RuntimeError) as error:
                known = self.killed_at > began - 15 or manner != "honest"
                self.counts[f"{manner}: turned away" if known else f"LOST: {error}"] += 1
                await asyncio.sleep(0.5)

    async def honest(self) -> None:
        """Vosk's own test client, in real time."""
        number = self.random.randrange(len(self.recordings))
        async with websockets.connect(self.url) as socket:
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

    async def vanishing(self) -> None:
        socket = await websockets.connect(self.url)
        await socket.send(self.random.choice(self.recordings).data[:8000])
        await asyncio.sleep(self.random.random())
        socket.transport.abort()

    async def garbage(self) -> None:
        async with websockets.connect(self.url) as socket:
            kind = self.random.randrange(5)
            message = ["{", "[1]", '{"config": {"sample_rate": -1}}', '{"config": {"encoding": "float32"}}', "\0"][kind]
            await socket.send(message)
            await socket.send(np.full(1000, np.nan, "<f4").tobytes())
            async for _ in socket:
                pass

    async def crumbs(self) -> None:
        """Single bytes."""
        async with websockets.connect(self.url) as socket:
            for byte in self.random.choice(self.recordings).data[6000:6300]:
                await socket.send(bytes([byte]))
                await socket.recv()
            await socket.send('{"eof": 1}')
            await socket.recv()

    async def flooding(self) -> None:
        """As fast as the socket takes it, 10 MB messages among it, reading nothing."""
        async with websockets.connect(self.url) as socket:
            for _ in range(200):
                await socket.send(bytes(100_000))
            await socket.send(bytes(10 << 20))
            await asyncio.sleep(1)

    async def silent(self) -> None:
        """Connects, says half a word, and nothing any more, until the server has had enough."""
        async with websockets.connect(self.url) as socket:
            await socket.send(self.random.choice(self.recordings).data[:4001])
            async for _ in socket:
                pass

    async def slow(self) -> None:
        """Slower than real time."""
        async with websockets.connect(self.url) as socket:
            data = self.random.choice(self.recordings).data[:8000]
            for start in range(0, len(data), 800):
                await socket.send(data[start : start + 800])
                await asyncio.sleep(0.3)
            await socket.send('{"eof": 1}')
            async for _ in socket:
                pass


async def soak(
    server: subprocess.Popen[str], url: str, recordings: list[Recording], minutes: float, count: int
) -> None:
    expected = offline(recordings)
    soak = Soak(url, recordings, expected, time.monotonic() + 60 * minutes)
    manners = ["vanishing", "garbage", "crumbs", "flooding", "silent", "slow"]
    crowd = [soak.client("honest" if number % 2 else manners[number // 2 % len(manners)]) for number in range(count)]
    memory: list[float] = []

    async def watch() -> None:
        while time.monotonic() < soak.until:
            await asyncio.sleep(min(30.0, 30 * minutes))
            memory.append(resident(server.pid))
            print(f"{memory[-1]:.0f} MB, {dict(soak.counts)}", file=sys.stderr, flush=True)
            if len(memory) % 2 == 0 and time.monotonic() < soak.until - 20:
                soak.killed_at = time.monotonic()
                os.kill(children(server.pid)[0], signal.SIGKILL)

    await asyncio.gather(watch(), *crowd)
    await asyncio.sleep(1)
    left = open_streams(url)
    early, last, most = memory[len(memory) // 5], memory[-1], max(memory)
    print(f"memory of the server, MB: {early:.0f} early, {last:.0f} at the end, most {most:.0f}")
    print(f"streams left open: {left:.0f}")
    for name, number in sorted(soak.counts.items()):
        print(f"{name}: {number}")
    bad = [name for name in soak.counts if name.split(":")[0].isupper()]
    raise SystemExit(1 if bad or left else 0)


def offline(recordings: list[Recording]) -> list[str]:
    recognizer = Recognizer.load(locate("digits-streaming"))
    sounds = (np.frombuffer(recording.data, "<i2").astype(np.float32) / 32768 for recording in recordings)
    return [recognizer.transcribe(samples, 8000).text for samples in sounds]


def children(process: int) -> list[int]:
    """The model processes."""
    listing = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process)], capture_output=True, text=True
    ).stdout
    return [int(line.split()[0]) for line in listing.splitlines() if "spawn_main" in line]


def resident(process: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) / 1024  # type: ignore[index]


def open_streams(url: str) -> float:
    with urllib.request.urlopen(url.replace("ws", "http", 1) + "/metrics") as answer:
        return float(re.search(r"^ds2_streams_open (\S+)", answer.read().decode(), re.M)[1])  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--streams", type=int, default=40)
    arguments = parser.parse_args()
    recordings = read_recordings(arguments.manifest)[:RECORDINGS]
    command = [sys.executable, "-m", "ds2", "serve", "--port", "0", "--workers", "2", "--set", "limits.idle=10"]
    with subprocess.Popen([*command, "--set", "limits.rate=100000"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = json.loads(server.stderr.readline())["url"].replace("http", "ws")
        threading.Thread(target=server.stderr.read, daemon=True).start()
        try:
            asyncio.run(soak(server, url, recordings, arguments.minutes, arguments.streams))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
