"""Live streams in real time: Batch Dispatch, one by one, wait-to-fill, and a loop for each connection, in turn.

    python benchmarks/serve.py recipes/digits/data/test.jsonl --output benchmarks/serve

Every system has the same model, beam search, machine and load; streams send real recordings in real time from another
process. The loop for each connection is what Vosk's server does: a pool of threads, one for each core, in which each
connection's chunks run by themselves. For each system: latency from the end of an utterance at 10, 20 and 30 streams;
then the largest number of streams of which 98 % of the final results come within 100 ms.
"""

import argparse
import asyncio
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

from ds2.decoder.beam import BeamDecoder
from ds2.model.streaming import StreamingModel
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import make_transcript
from ds2.serve.load_test import Outcome, Recording, apply_load, read_recordings, table
from ds2.serve.plots import draw_batches, draw_latencies

POLICIES = ("eager", "one-by-one", "wait-to-fill")
SYSTEMS = (*POLICIES, "loops")
LOADS = (10, 20, 30)
WANTED = 100.0  # milliseconds for 98 % of the final results
MOST = 640  # streams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path, nargs="?")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0, help="that each load is held")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="some of them; results are added to the folder's")
    parser.add_argument("--loops", action="store_true", help="(used within) serves as the loop for each connection")
    arguments = parser.parse_args()
    if arguments.loops:
        asyncio.run(serve_loops())
        return
    recordings = read_recordings(arguments.manifest)
    most = {}
    figures = {}
    for system in arguments.systems.split(","):
        outcomes, most[system] = measure(system, recordings, arguments.seconds)
        figures[system] = outcomes
        print(f"\n{system}: 98 % within {WANTED:.0f} ms up to {most[system]} streams\n")
        print(*table(outcomes), sep="\n", flush=True)
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


def measure(system: str, recordings: Sequence[Recording], seconds: float) -> tuple[list[Outcome], int]:
    """Outcomes by number of streams, and the largest number that meets the goal."""
    outcomes: dict[int, Outcome] = {}

    def meets(url: str, streams: int) -> bool:
        for _ in range(2):  # a second time where the first failed: other work on the machine
            outcome = asyncio.run(apply_load(url, recordings, streams, seconds))
            print(
                f"{system}: {streams} streams, 98 % in {outcome.percentile(0.98):.0f} ms", file=sys.stderr, flush=True
            )
            if streams not in outcomes or outcome.percentile(0.98) < outcomes[streams].percentile(0.98):
                outcomes[streams] = outcome
            if outcome.percentile(0.98) <= WANTED:
                return True
        return False

    with server(system) as url:
        met = [streams for streams in LOADS if meets(url, streams)]
        low, high = max(met, default=1), 2 * max(met, default=5)
        while high < MOST and meets(url, high):
            low, high = high, 2 * high
        while high > 1.3 * low:
            middle = (low + high) // 2
            low, high = (middle, high) if meets(url, middle) else (low, middle)
    return [outcomes[streams] for streams in sorted(outcomes)], low


@contextmanager
def server(system: str) -> Iterator[str]:
    """A server in a process of its own; its address."""
    if system == "loops":
        command = [sys.executable, __file__, "--loops"]
    else:
        command = [sys.executable, "-m", "ds2", "serve", "--port", "0", "--set", f"dispatch.policy={system}"]
        command += ["--set", f"limits.streams={MOST}", "--set", "limits.rate=1000000", "--set", "limits.wait=1000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"//([0-9.:]+)", line)
    if found is None:
        raise SystemExit(line + process.stderr.read())
    drain = ThreadPoolExecutor(1)
    drain.submit(process.stderr.read)
    try:
        yield f"ws://{found[1]}"
    finally:
        process.terminate()
        process.wait()
        drain.shutdown()


async def serve_loops() -> None:
    """A connection, a stream, a loop; the model runs in a pool of threads, as many as there are cores."""
    torch.set_num_threads(1)
    recognizer = Recognizer.load("digits-streaming")
    pool = ThreadPoolExecutor(os.cpu_count())
    _Loop(recognizer).end()  # compiles

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
    """One stream of the model and its beam."""

    def __init__(self, recognizer: Recognizer):
        self.recognizer, self.model = recognizer, StreamingModel(recognizer.model)
        assert isinstance(recognizer.beam, BeamDecoder)
        self.beam, self.stream, self.search = recognizer.beam, self.model.begin(), recognizer.beam.begin()

    def step(self, data: bytes, last: bool = False) -> str:
        samples = torch.from_numpy(np.frombuffer(data, "<i2").astype(np.float32) / 32768)
        [rows] = self.model.step([self.stream], [samples], [last])
        self.beam.step([self.search], [rows])
        return self.recognizer.tokenizer.decode(self.beam.partial(self.search).tokens).strip()

    def end(self) -> dict[str, object]:
        self.step(b"", True)
        hypothesis = self.beam.finish(self.search)[0]
        seconds = self.recognizer.model.config.frame_seconds
        transcript = make_transcript(hypothesis, self.recognizer.tokenizer, seconds, 1e9)
        words = [{"word": word.text, "start": word.start, "end": word.end} for word in transcript.words]
        return {"text": transcript.text, "result": words}


if __name__ == "__main__":
    main()
