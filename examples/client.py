"""Sends a recording to a running ds2 serve as a microphone would: partial texts in place, final ones line by line.

ds2 serve                                   # in another shell
python examples/client.py [recording] [--server ws://127.0.0.1:2700]
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

import soundfile
import websockets

READ = Path(__file__).parents[1] / "recipes" / "english" / "audio" / "libri_00088.opus"
CHUNK = 0.1  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="?", type=Path, default=READ)
    parser.add_argument("--server", default="ws://127.0.0.1:2700")
    arguments = parser.parse_args()
    try:
        asyncio.run(recognise(arguments.recording, arguments.server))
    except (OSError, soundfile.SoundFileError, websockets.ConnectionClosed) as error:
        sys.exit(f"\n{arguments.recording} to {arguments.server}: {error}")


async def recognise(recording: Path, server: str) -> None:
    sound, rate = soundfile.read(recording, dtype="int16", always_2d=True)
    sound, size = sound.mean(axis=1).astype("int16"), int(CHUNK * rate)  # the server hears one channel
    async with websockets.connect(server) as socket:
        await socket.send(json.dumps({"config": {"sample_rate": rate}}))
        for start in range(0, len(sound), size):
            await socket.send(sound[start : start + size].tobytes())
            show(json.loads(await socket.recv()))  # each message has one answer
            await asyncio.sleep(CHUNK)  # no microphone is faster
        await socket.send(json.dumps({"eof": 1}))
        show(json.loads(await socket.recv()))


def show(answer: dict) -> None:
    if "partial" in answer:  # it may still change, and takes the place of the one before
        print(f"\r\033[K{answer['partial'][-70:]}", end="", flush=True)
    elif answer.get("text"):
        print(f"\r\033[K{answer['text']}")


if __name__ == "__main__":
    main()
