"""Live streams in real time: Batch Dispatch, one by one, wait-to-fill, and a loop for each connection.

    python benchmarks/serve.py [MANIFEST] [--output benchmarks/serve] [--quick]

All systems have the same model, beam search, machine and load. Another process sends real recordings in real time,
by default the test set of the digits recipe. The loop for each connection is the design of Vosk's server: each
connection runs its own chunks in a pool of threads, one thread for each core. For each system the script measures the
latency from the end of an utterance at 10, 20 and 30 streams, and then the largest number of streams at which 98 % of
the final results come within 100 ms. --quick measures 2 streams for 2 seconds, to see that everything runs.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import websockets
from digits import manifest
from wait_to_fill import WaitToFillConfig

from ds2.recognition.recognizer import Recognizer
from ds2.serve.config import read_serve_config
from ds2.serve.load_test import LoadResult, Recording, apply_load, load_recordings, load_table
from ds2.serve.logs import log_to_stderr
from ds2.serve.plots import draw_batches, draw_latencies
from ds2.serve.server import run

POLICIES = ("eager", "one-by-one", "wait-to-fill")
SYSTEMS = (*POLICIES, "loops")
MODEL = "digits-streaming"
LOADS = (10, 20, 30)  # streams
QUICK_LOADS = (2,)
GOAL = 100.0  # milliseconds for 98 % of the final results
MOST = 640  # streams
SETTINGS = {  # of the server: no limit may end a measurement
    "model": MODEL,
    "port": "0",
    "limits.streams": str(MOST),
    "limits.streams_per_client": str(MOST),
    "limits.streams_per_minute": "1000000",
    "limits.max_queue_seconds": "1000",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, nargs="?")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each load")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="the systems to measure")
    parser.add_argument("--quick", action="store_true", help="one small load for each system")
    parser.add_argument("--serve", choices=SYSTEMS, help=argparse.SUPPRESS)  # for the process of a server
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    recordings = load_recordings(arguments.manifest or manifest("test"))
    seconds = 2.0 if arguments.quick else arguments.seconds
    most = {}
    figures = {}
    for system in arguments.systems.split(","):
        outcomes, most[system] = measure(system, recordings, seconds, arguments.quick)
        figures[system] = outcomes
        print(f"\n{system}: 98 % within {GOAL:.0f} ms up to {most[system]} streams\n")
        print(*load_table(outcomes), sep="\n", flush=True)
    if "one-by-one" in most and "eager" in most:
        print(f"\neager / one by one: {most['eager'] / most['one-by-one']:.1f} times as many streams")
    if "loops" in most and "eager" in most:
        print(f"eager / a loop for each connection: {most['eager'] / most['loops']:.1f} times as many streams")
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        draw_latencies(arguments.output / "latency.png", figures)
        if "eager" in figures:
            shown = [outcome for outcome in figures["eager"] if outcome.streams in (*LOADS, most["eager"])]
            draw_batches(arguments.output / "batches.png", shown)
        rows = {system: [outcome.summary() for outcome in outcomes] for system, outcomes in figures.items()}
        (arguments.output / "serve.json").write_text(json.dumps({"most": most, "loads": rows}, indent=1) + "\n")


def measure(
    system: str, recordings: Sequence[Recording], seconds: float, is_quick: bool
) -> tuple[list[LoadResult], int]:
    """Outcomes by number of streams, and the largest number that meets the goal."""
    outcomes: dict[int, LoadResult] = {}

    def meets(url: str, streams: int) -> bool:
        for _ in range(2):  # the first time can fail because of other work on the machine
            outcome = asyncio.run(apply_load(url, recordings, streams, seconds))
            print(
                f"{system}: {streams} streams, 98 % in {outcome.percentile(0.98):.0f} ms", file=sys.stderr, flush=True
            )
            if streams not in outcomes or outcome.percentile(0.98) < outcomes[streams].percentile(0.98):
                outcomes[streams] = outcome
            if outcome.percentile(0.98) <= GOAL:
                return True
        return False

    with server(system) as url:
        met = [streams for streams in (QUICK_LOADS if is_quick else LOADS) if meets(url, streams)]
        if is_quick:
            return list(outcomes.values()), max(met, default=0)
        low, high = max(met, default=1), 2 * max(met, default=5)
        while high < MOST and meets(url, high):
            low, high = high, 2 * high
        while high > 1.3 * low:
            middle = (low + high) // 2
            low, high = (middle, high) if meets(url, middle) else (low, middle)
    return [outcomes[streams] for streams in sorted(outcomes)], low


@contextmanager
def server(system: str) -> Iterator[str]:
    """Starts a server in a separate process; yields its address."""
    command = [sys.executable, __file__, "--serve", system]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.stderr is not None
    log = []
    for line in process.stderr:
        log.append(line)
        if found := re.search(r"//([0-9.:]+)", line):
            break
    else:
        raise SystemExit("".join(log))
    drain = ThreadPoolExecutor(1)
    drain.submit(process.stderr.read)
    try:
        yield f"ws://{found[1]}"
    finally:
        process.terminate()
        process.wait()
        drain.shutdown()


def serve(system: str) -> None:
    """Runs a server until it is terminated."""
    if system == "loops":
        asyncio.run(serve_loops())
        return
    batch = "1" if system == "one-by-one" else "64"
    config = read_serve_config(None, {**SETTINGS, "dispatch.batch_streams": batch}, {})
    if system == "wait-to-fill":
        config = dataclasses.replace(config, dispatch=WaitToFillConfig())
    log_to_stderr()
    run(config, str)  # which does nothing with the address


async def serve_loops() -> None:
    """A loop for each connection; the model runs in a pool of threads, one for each core."""
    torch.set_num_threads(1)
    recognizer = Recognizer.load(MODEL)
    pool = ThreadPoolExecutor(os.cpu_count())
    _Loop(recognizer).step(bytes(recognizer.sample_rate))  # compiles

    async def connection(socket: websockets.ServerConnection) -> None:
        loop, running = _Loop(recognizer), asyncio.get_running_loop()
        async for message in socket:
            if isinstance(message, bytes):
                await socket.send(json.dumps({"partial": await running.run_in_executor(pool, loop.step, message)}))
            elif "eof" in message:
                await socket.send(json.dumps(await running.run_in_executor(pool, loop.end)))
                return

    async with websockets.serve(connection, "127.0.0.1", 0, compression=None) as listening:
        host, port = next(iter(listening.sockets)).getsockname()
        print(f"ready at ws://{host}:{port}", file=sys.stderr, flush=True)
        await listening.wait_closed()


class _Loop:
    """One stream."""

    def __init__(self, recognizer: Recognizer):
        self.rate, self.stream = recognizer.sample_rate, recognizer.stream()

    def step(self, data: bytes) -> str:
        self.stream.accept(np.frombuffer(data, "<i2"), self.rate)
        return self.stream.partial()

    def end(self) -> dict[str, object]:
        found = self.stream.finish()
        words = [word for transcript in found for word in transcript.words]
        rows = [{"word": word.text, "start": word.start, "end": word.end} for word in words]
        return {"text": " ".join(word.text for word in words), "result": rows}


if __name__ == "__main__":
    main()
